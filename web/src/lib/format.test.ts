import { describe, expect, it } from "vitest";
import * as format from "./format";
import { timeTicks } from "./ticks";

describe("format", () => {
  it("test_b45 durations", () => {
    expect([0.42, 1.5, 12, 272, 11_520].map(format.duration)).toEqual(["420ms", "1.5s", "12s", "4m 32s", "3h 12m"]);
    expect([0.9996, 9.96, 59.6, 3599.7, 187_200].map(format.duration)).toEqual(["1.0s", "10s", "1m 00s", "1h 00m", "2d 4h"]);
    expect([null, undefined, NaN, Infinity].map(format.duration)).toEqual(["–", "–", "–", "–"]);
    expect(format.duration(-3)).toBe("0ms");
  });

  it("test_b45 values", () => {
    expect([0, 1e-4, 1.5264, 99.99, 204.355, -0.5].map(format.metric)).toEqual(["0", "1.00e-04", "1.5264", "99.9900", "204.35", "-0.5000"]);
    expect([NaN, Infinity, -Infinity, null].map(format.metric)).toEqual(["NaN", "+Inf", "−Inf", "–"]);
    expect(format.metric(1234567.5)).toBe("1\u202f234\u202f567.50");
  });

  it("test_b45 bytes: base 1024, one decimal from GB", () => {
    expect([0, 1023, 2048, 5 * 2 ** 20, 2.25 * 2 ** 30].map(format.bytes)).toEqual(["0 B", "1023 B", "2 KB", "5 MB", "2.3 GB"]);
    expect(format.bytesOf(61 * 2 ** 30, 80 * 2 ** 30)).toBe("61.0 / 80.0 GB");
    expect(format.bytesOf(500 * 2 ** 20, 2 * 2 ** 30)).toBe("500 MB / 2.0 GB");
    expect(format.bytesOf(null, 1)).toBe("–");
  });

  it("groups thousands and keeps unknown unknown", () => {
    expect(format.count(1204)).toBe("1\u202f204");
    expect(format.count(null)).toBe("–");
    expect(format.percent(0.126, 1)).toBe("12.6\u202f%");
    expect([412, 3104, 2_400_000, 0].map(format.compact)).toEqual(["412", "3.1\u202fk", "2.4\u202fM", "0"]);
  });

  it("labels an axis shortly", () => {
    expect([0, 0.001, 0.5, 1200, 25_000, 3_500_000, 1e-5].map(format.tick)).toEqual(["0", "0.001", "0.5", "1\u202f200", "25k", "3.5M", "1e-5"]);
  });

  it("ticks evenly", () => {
    expect([59.9, 60, 3661, 90_000].map(format.clock)).toEqual(["59s", "1m 00s", "1h 01m 01s", "1d 01h 00m"]);
  });
});

it("short times keep three digits", () => {
  expect([null, 0, 2e-7, 0.000085, 0.00124, 0.009996, 0.0345, 0.0994, 0.268, 1.5].map(format.fine)).toEqual([
    "–", "0ms", "1µs", "85µs", "1.24ms", "10.0ms", "34.5ms", "99.4ms", "268ms", "1.5s",
  ]);
});

it("test_d85 a moment is of the reader's own zone, which is named", () => {
  const at = new Date(1_700_000_000 * 1000);
  const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at).find((part) => part.type === "timeZoneName");
  expect(format.moment(1_700_000_000)).toMatch(/^2023-11-1[45] \d\d:\d\d:20 \S+$/);
  expect(format.moment(1_700_000_000).endsWith(` ${zone?.value}`)).toBe(true);
  expect(format.moment(1_700_000_000)).toContain(`${String(at.getHours()).padStart(2, "0")}:`);
});

it("a time of another day carries its date", () => {
  const now = Date.now() / 1000;
  const then = new Date(2023, 10, 14, 22, 13, 20).getTime() / 1000;
  expect(format.when(now)).toBe(format.timeOfDay(now));
  expect(format.when(then)).toBe("Nov 14 2023 22:13:20");
  expect(format.when(then, false)).toBe("Nov 14 2023 22:13");
  expect([1, 60, 3600, 0.5].map((step) => timeTicks([then], step))).toEqual([["22:13:20"], ["22:13"], ["22:13"], ["22:13:20.0"]]);
  const midnight = new Date(2023, 10, 15).getTime() / 1000;
  expect([60, 21600, 86400].map((step) => timeTicks([midnight], step))).toEqual([["00:00"], ["Nov 15 2023"], ["Nov 15 2023"]]);
});
