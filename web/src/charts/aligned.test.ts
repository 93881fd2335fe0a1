import { expect, it } from "vitest";
import type { Entries } from "../state/columns";
import { aligned, drawable, extent, isolated, pictureOf } from "./aligned";
import { compose } from "./compose";

function entries(x: number[], mean: number[]): Entries {
  return { x, mean, min: mean, max: mean, count: x.map(() => 1) };
}

const LOOK = { log: false, band: true, smooth: 0, solo: null, label: "loss (mean)" };

it("test_d62 a point between two that are not finite is drawn as a dot", () => {
  expect(isolated(drawable([NaN, 2, NaN, Infinity, 5, 6, -Infinity, 7], false), 0, 7)).toEqual([1, 7]);
  expect(isolated([undefined, 3, undefined], 0, 2)).toEqual([1]);
});

it("test_d63 the range of y is that of finite values, whatever else there is", () => {
  const picture = pictureOf(entries([0, 1, 2, 3, 4], [1, NaN, Infinity, -Infinity, 3]), [], "loss (mean)", { log: false, band: true, color: 0 });
  expect(extent(picture, 0, 4)).toEqual([1, 3]);
  expect(extent(pictureOf(entries([0], [NaN]), [], "x", { log: false, band: false, color: 0 }), 0, 1)).toBeNull();
});

it("test_d61 what is not finite is a gap in the line, never a number", () => {
  expect(drawable([1, NaN, Infinity, 0, null, undefined], false)).toEqual([1, null, null, 0, null, undefined]);
  expect(drawable([1, 0, -1], true)).toEqual([1, null, null]);
});

it("test_lesson a metric that began late begins where it began, beside one that began at 0", () => {
  const table = aligned([
    { x: [0, 1, 2, 3], values: [9, 8, 7, 6] },
    { x: [2, 3], values: [0.5, 0.25] },
  ]);
  expect(table.x).toEqual([0, 1, 2, 3]);
  expect(table.values[1]).toEqual([undefined, undefined, 0.5, 0.25]);
  const late = compose(entries([500, 501], [0.5, 0.25]), [], [], LOOK);
  expect(late.x).toEqual([500, 501]);
  const ranks = [{ rank: 1, label: "rank 1", entries: entries([502, 503], [3, 4]) }];
  const both = compose(entries([500, 501], [0.5, 0.25]), [], ranks, LOOK);
  expect(both.x).toEqual([500, 501, 502, 503]);
  expect(both.lines.map((line) => line.values)).toEqual([
    [undefined, undefined, 3, 4],
    [0.5, 0.25, undefined, undefined],
  ]);
});
