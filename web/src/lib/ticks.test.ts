import { describe, expect, it } from "vitest";
import { byteTicks, elapsedTicks, logLabels, logSplits, numberTicks, percentTicks, timeTicks, type Ticks } from "./ticks";

const STEPS = [1, 2, 2.5, 5];

function row(from: number, step: number, count = 7): number[] {
  return Array.from({ length: count }, (_, i) => from + i * step);
}

describe("labels of an axis", () => {
  it("are as short as their step allows", () => {
    expect(numberTicks(row(0, 0.5, 4), 0.5)).toEqual(["0", "0.5", "1.0", "1.5"]);
    expect(numberTicks(row(0, 5000, 4), 5000)).toEqual(["0", "5k", "10k", "15k"]);
    expect(numberTicks(row(1e6, 250_000, 3), 250_000)).toEqual(["1.00M", "1.25M", "1.50M"]);
    expect(numberTicks(row(0, 2e-5, 3), 2e-5)).toEqual(["0", "2e-5", "4e-5"]);
    expect(numberTicks(row(1_000_000, 1, 2), 1)).toEqual(["1\u202f000\u202f000", "1\u202f000\u202f001"]);
    expect(elapsedTicks(row(0, 0.25, 4), 0.25)).toEqual(["0s", "250ms", "500ms", "750ms"]);
    expect(elapsedTicks(row(0, 0.5, 4), 0.5)).toEqual(["0s", "0.5s", "1.0s", "1.5s"]);
    expect(elapsedTicks(row(0, 1800, 4), 1800)).toEqual(["0s", "30m", "1h 00m", "1h 30m"]);
    expect(elapsedTicks([86_400, 90_000, 93_600], 3600)).toEqual(["1d 00h", "1d 01h", "1d 02h"]);
    expect(elapsedTicks([59, 59.5, 60, 60.5], 0.5)).toEqual(["59.0s", "59.5s", "1m 00.0s", "1m 00.5s"]);
    expect(byteTicks(row(0, 512 * 2 ** 20, 4), 512 * 2 ** 20)).toEqual(["0", "0.5 GB", "1.0 GB", "1.5 GB"]);
    expect(percentTicks([0, 0.005], 0.005)).toEqual(["0.0\u202f%", "0.5\u202f%"]);
  });

  it("of one axis never say the same twice, at any zoom", () => {
    const check = (ticks: Ticks, from: number, step: number) => {
      const labels = ticks(row(from, step), step);
      expect(new Set(labels).size, `${from} by ${step}: ${labels.join(" ")}`).toBe(labels.length);
    };
    for (let power = -12; power <= 12; power++) {
      for (const digit of STEPS) {
        const step = digit * 10 ** power;
        for (const times of [0, 1, 7, 999, 123_456]) check(numberTicks, times * step, step);
        if (power >= -9 && power <= 6) for (const from of [0, 59, 3599, 86_399, 200_000]) if (from / step < 1e13) check(elapsedTicks, Math.round(from / step) * step, step);
      }
    }
    for (let power = -8; power < 40; power++) for (const times of [0, 3, 1000, 70_000]) check(byteTicks, times * 2 ** power, 2 ** power);
    const noon = new Date(2023, 10, 14, 12).getTime() / 1000;
    for (const step of [0.001, 0.01, 0.25, 1, 15, 60, 900, 3600, 21_600, 43_200, 86_400]) check(timeTicks, noon, step);
  });

  it("of a log scale are where they can be read, however far or narrow it is", () => {
    expect(logLabels(logSplits(1e-4, 1, 6))).toEqual(["1e-4", "0.001", "0.01", "0.1", "1"]);
    expect(logLabels(logSplits(0.9, 12, 6))).toEqual(["1", "2", "5", "10"]);
    expect(logLabels(logSplits(1.001, 1.004, 6))).toEqual(["1.001", "1.002", "1.003", "1.004"]);
    for (let power = -12; power < 12; power++) {
      for (const ratio of [1.0001, 1.01, 1.3, 3, 6, 20, 150, 1e4, 1e9]) {
        const splits = logSplits(1.37 * 10 ** power, 1.37 * 10 ** power * ratio, 6);
        const labels = logLabels(splits);
        expect(new Set(labels).size, labels.join(" ")).toBe(splits.length);
        expect(splits.length, `${power} ${ratio}`).toBeGreaterThan(ratio > 10 || ratio < 5 ? 1 : 0);
        expect(splits.length).toBeLessThan(9);
      }
    }
  });
});
