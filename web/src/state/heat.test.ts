import { expect, it } from "vitest";
import { asRanks } from "../wire/guards";
import { heatOf, hostBands, withOdd } from "./heat";
import { RankHistory } from "./history";
import { stepRows } from "./steptimes";

const ranks = asRanks([0, 1].map((rank) => ({ rank, path: `root/h/rank${rank}`, state: "alive", own_step_seconds: 1 + rank, step_seconds: 3, phases: { data: 0.5 } })));
const answer = {
  ranks: [1, 0], step: [10, 20, 30], time: [101, 102, 104],
  own: [[4, 4, 4], [1, 2, null]], data: [[0, 0, 0], [1, 1, 1]], wall: [[5, 5, 5], [5, 5, 5]],
};

it("a last column that many ranks had not told yet gives way to what this page has seen", () => {
  const seen = new RankHistory();
  seen.take(ranks, 2, 0);
  seen.take(ranks, 3, 1100);
  expect(stepRows(answer, seen, "own step", ranks, 100)[0]).toMatchObject({ x: [1, 2, 3], values: Float64Array.of(1, 2, 1) });
});

it("rows hold the whole run by rank, whatever order the server has them in", () => {
  const rows = stepRows(answer, new RankHistory(), "own step", ranks, 100);
  expect(rows.map(({ rank, x, from, values }) => ({ rank, x, from, values }))).toEqual([
    { rank: 0, x: [1, 2, 4], from: [0, 1, 2], values: Float64Array.of(1, 2, NaN) },
    { rank: 1, x: [1, 2, 4], from: [0, 1, 2], values: Float64Array.of(4, 4, 4) },
  ]);
  expect(stepRows(null, new RankHistory(), "whole step", ranks, 100)[0]?.x).toEqual([]);
});

it("what the page has seen since goes on from there, without overlap and without filling gaps", () => {
  const history = new RankHistory();
  history.take(ranks, 3.5, 0);
  history.take(ranks, 4.6, 1100);
  history.take(ranks, 4.7, 1200);
  history.take(ranks, 40, 36_000);
  const row = stepRows(answer, history, "own step", ranks, 100)[1];
  expect(row?.x).toEqual([1, 2, 4, 4.6, 40]);
  expect(row?.from).toEqual([0, 1, 2, 4, 35]);
  expect(row?.values).toEqual(Float64Array.of(4, 4, 4, 2, 2));
});

it("a rank that has gone has no value from then on", () => {
  const history = new RankHistory();
  history.take(asRanks([{ rank: 0, path: "p", state: "alive", own_step_seconds: 1 }, { rank: 1, path: "q", state: "failed", own_step_seconds: 2 }]), 1, 0);
  expect(history.since(0)[0]?.own).toEqual(Float32Array.of(1, NaN));
});

it("a long history is thinned and its spans stay closed", () => {
  const history = new RankHistory();
  for (let i = 0; i <= 700; i++) history.take(ranks, i, i * 1000);
  const moments = history.since(-Infinity);
  expect(moments.length).toBeLessThanOrEqual(601);
  expect(moments.slice(1).every(({ from }, i) => from === moments[i]?.at)).toBe(true);
});

it("a value fills the span it held for, a gap stays empty, and short spans weigh little", () => {
  const row = { rank: 0, path: "", x: [1, 2, 10], from: [0, 1, 8], values: [1, 3, 5] };
  expect(heatOf([row], 5)?.cells).toEqual([Float64Array.of(2, NaN, NaN, NaN, 5)]);
  expect(heatOf([{ ...row, from: [0, 1, 2] }], 5)?.cells).toEqual([Float64Array.of(2, 5, 5, 5, 5)]);
  expect(heatOf([{ ...row, from: [0, 1, 2] }], 1)?.cells).toEqual([Float64Array.of(4.4)]);
});

it("the scale has the odd row in it, and noise fills little of it", () => {
  const row = (rank: number, value: number) => ({ rank, path: "", x: [1, 2], values: [value, value] });
  const calm = Array.from({ length: 401 }, (_, rank) => row(rank, 1 + (rank % 2) * 0.01));
  expect(heatOf(calm, 2)).toMatchObject({ low: 1, high: 1.2, odd: null });
  expect(heatOf([...calm, row(401, 3)], 2)).toMatchObject({ low: 1, high: 3, odd: { rank: 401 } });
});

const pair = (first: (number | null)[], second: (number | null)[]) =>
  [first, second].map((values, rank) => ({ rank, path: `root/h/rank${rank}`, x: values.map((_, i) => i), values }));

it("of two ranks the one that is worse nearly all the time stands out", () => {
  const slow = pair([2, 2, 2, 2, 3, 2, 2, 2], [3, 3, 3, 3, 2, 3, 3, 3]);
  expect(heatOf(slow, 8)?.odd).toEqual({ rank: 1, mean: 2.875, usual: 2.125 });
  expect(heatOf(slow, 8, true)?.odd?.rank).toBe(0);
});

it("of two ranks that are alike, or in turn ahead, or hardly known, neither does", () => {
  expect(heatOf(pair([2, 2, 2, 2, 2, 2], [2.1, 2.1, 2.1, 2.1, 2.1, 2.1]), 6)?.odd).toBeNull();
  expect(heatOf(pair([9, 1, 9, 1, 9, 1], [1, 3, 1, 3, 1, 3]), 6)?.odd).toBeNull();
  expect(heatOf(pair([2, 2], [9, 9]), 6)?.odd).toBeNull();
  expect(heatOf(pair([2, 2, 2, 2, 2, 2], [null, null, null, null, null, null]), 6)?.odd).toBeNull();
});

it("a row that is known to be the odd one is marked where the cells do not say so", () => {
  const alike = heatOf(pair([2, 2, 2, 2, 2, 2], [2.1, 2.1, 2.1, 2.1, 2.1, 2.1]), 6)!;
  expect(withOdd(alike, 1).odd).toEqual({ rank: 1, mean: expect.closeTo(2.1), usual: 2 });
  expect(withOdd(alike, 7)).toBe(alike);
  const clear = heatOf(pair([2, 2, 2, 2, 2, 2], [9, 9, 9, 9, 9, 9]), 6)!;
  expect(withOdd(clear, 0)).toBe(clear);
});

it("a first step of a minute hides no slow rank: moments that were unusual for all do not make the scale", () => {
  const at = Array.from({ length: 100 }, (_, i) => i);
  const row = (rank: number, usual: number) => ({ rank, path: "", x: at, values: at.map((i) => (i < 20 ? 60 : usual)) });
  const heat = heatOf([...Array.from({ length: 63 }, (_, rank) => row(rank, 0.1)), row(63, 0.15)], 100);
  expect(heat).toMatchObject({ low: 0.1, isAbove: true, odd: { rank: 63 } });
  expect(heat?.high).toBeCloseTo(0.15);
  expect(heat?.means[63]).toBeCloseTo(0.15);
});

it("rows of one host stand together; one host alone is no band", () => {
  const rows = ["a", "a", "b", null].map((host, rank) => ({ rank, path: "", host, x: [], values: [] }));
  expect(hostBands(rows)).toEqual([{ host: "a", first: 0, count: 2 }, { host: "b", first: 2, count: 1 }, { host: "", first: 3, count: 1 }]);
  expect(hostBands(rows.slice(0, 2))).toEqual([]);
});
