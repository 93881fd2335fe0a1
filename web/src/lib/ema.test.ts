import { expect, it } from "vitest";
import { ema } from "./ema";

it("starts unbiased and follows", () => {
  expect(ema([0, 1, 2], [4, 4, 4], 0.9).map((value) => value?.toFixed(6))).toEqual(["4.000000", "4.000000", "4.000000"]);
  expect(ema([0, 1], [0, 1], 0.5)[1]).toBeCloseTo(2 / 3);
});

it("goes on behind what is not finite or missing", () => {
  const smooth = ema([0, 1, 2, 3], [1, NaN, undefined, 1], 0.9);
  expect(smooth).toEqual([1, null, null, expect.closeTo(1)]);
});

it("forgets over a gap", () => {
  const x = [0, 1, 2, 3, 103];
  const near = ema([0, 1, 2, 3, 4], [1, 1, 1, 1, 0], 0.9)[4] ?? 0;
  const far = ema(x, [1, 1, 1, 1, 0], 0.9)[4] ?? 1;
  expect(far).toBeLessThan(0.001);
  expect(near).toBeGreaterThan(0.5);
});
