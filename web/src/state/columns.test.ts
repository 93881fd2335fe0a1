import { describe, expect, it } from "vitest";
import type { PointsUpdate, SeriesAnswer } from "../wire/types.gen";
import { badAt, baseOf, joined, marksOf, Tail, within } from "./columns";

function answer(x: number[], count: number[], decimated = false): SeriesAnswer {
  return { metric: "loss", path: "root", x, mean: x.map((v) => v * 10), min: x, max: x, count, total_points: x.length, reduction: "mean", std: [], x_kind: "step", decimated, non_finite: [] };
}

function update(step: number[], count: number[], mean: PointsUpdate["mean"] = step.map((v) => v * 10 + 1)): PointsUpdate {
  return { step, epoch: step.map(() => 0), time: step.map((s) => 1000 + s), mean, min: mean, max: mean, count, worst: step.map(() => null) };
}

describe("a base and its tail", () => {
  it("keeps each step once, the fuller entry", () => {
    const tail = new Tail();
    tail.take(update([2, 3], [8, 3]));
    tail.take(update([3, 4], [8, 8]));
    const both = joined(baseOf(answer([0, 1, 2, 3], [8, 8, 4, 8]), null), tail, "step", 0);
    expect(both.x).toEqual([0, 1, 2, 3, 4]);
    expect(both.mean).toEqual([0, 10, 21, 31, 41]);
  });

  it("an emptier entry told later does not replace a fuller one", () => {
    const tail = new Tail();
    tail.take(update([5], [8], [1]));
    tail.take(update([5], [2], [9]));
    expect(tail.mean).toEqual([1]);
  });

  it("takes late steps in order", () => {
    const tail = new Tail();
    tail.take(update([5, 7], [1, 1]));
    tail.take(update([6, 4], [1, 1]));
    expect(tail.step).toEqual([4, 5, 6, 7]);
    expect(tail.time).toEqual([1004, 1005, 1006, 1007]);
  });

  it("a thinned base is continued behind its end only", () => {
    const tail = new Tail();
    tail.take(update([90, 100, 110], [8, 8, 8]));
    const both = joined(baseOf(answer([0, 50], [50, 50], true), 100), tail, "step", 0);
    expect(both.x).toEqual([0, 50, 110]);
    tail.dropUpTo(100);
    expect(tail.step).toEqual([110]);
  });

  it("continues on wall time and time since the start", () => {
    const tail = new Tail();
    tail.take(update([1, 2], [1, 1]));
    const base = baseOf({ ...answer([0.5, 1], [1, 1]), x_kind: "relative" }, null);
    expect(joined(base, tail, "relative", 1000).x).toEqual([0.5, 1, 2]);
    expect(joined(null, tail, "time", 1000).x).toEqual([1001, 1002]);
  });

  it("keeps what is not finite, and says where", () => {
    const tail = new Tail();
    tail.take(update([1, 2, 3], [1, 1, 1], ["NaN", "Infinity", 2]));
    const entries = joined(null, tail, "step", 0);
    expect(entries.mean).toEqual([NaN, Infinity, 2]);
    expect(marksOf(entries, [{ x: 1, what: "NaN" }])).toEqual([
      { x: 1, what: "NaN" },
      { x: 2, what: "Infinity" },
    ]);
  });

  it("a window keeps one neighbour on either side", () => {
    const entries = joined(baseOf(answer([0, 1, 2, 3, 4, 5], [1, 1, 1, 1, 1, 1]), null), new Tail(), "step", 0);
    expect(within(entries, 2, 3).x).toEqual([1, 2, 3, 4]);
    expect(within(entries, 9, 10).x).toEqual([5]);
  });
});

it("the newest steps wait until half the ranks that told the one before have told them, for a second at most", () => {
  const shown = (count: number[], nowMs = 0) => {
    const tail = new Tail();
    tail.take(update(count.map((_, i) => i), count));
    tail.settle(nowMs);
    return joined(null, tail, "step", 1000).x.length;
  };
  expect([[8, 8, 3], [8, 8, 7, 7, 7, 7, 7], [8, 8, 4, 1, 8], [3, 8], [1], []].map((count) => shown(count))).toEqual([2, 7, 5, 2, 1, 0]);
  expect([shown([8, 8, 3], 999), shown([8, 8, 3], 1000)]).toEqual([2, 3]);
  const tail = new Tail();
  tail.take(update([0, 1, 2], [3, 3, 1]), 0);
  const base = baseOf(answer([0, 1, 2], [3, 3, 1]), null);
  expect([joined(base, tail, "step", 0).x, joined(null, tail, "relative", 1000).x]).toEqual([[0, 1], [0, 1]]);
  tail.take(update([2, 3], [3, 1]), 10);
  expect(joined(base, tail, "step", 0)).toMatchObject({ x: [0, 1, 2], count: [3, 3, 3] });
  tail.settle(1010);
  tail.take(update([4], [1]), 1020);
  expect(joined(base, tail, "step", 0).x).toEqual([0, 1, 2, 3, 4]); // one rank goes on alone: it is waited for once
  tail.dropUpTo(3);
  expect([tail.unsettled, tail.entries("step", 0).x]).toEqual([Infinity, [4]]);
});

it("what is not finite is read out where it is and at the end, and nothing else", () => {
  const entries = { x: [0, 1, 2], mean: [1, Infinity, NaN], min: [], max: [], count: [] };
  expect([badAt(entries, undefined), badAt(entries, 1), badAt(entries, 0), badAt(entries, 5)]).toEqual([NaN, Infinity, null, null]);
  expect(badAt({ ...entries, mean: [1, NaN, 2] }, undefined)).toBeNull();
});
