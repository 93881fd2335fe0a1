import { expect, it } from "vitest";
import type { MetricEntry, RankEntry } from "../wire/types.gen";
import { countAt, tellersOf } from "./spread";

const everyone = Array.from({ length: 100 }, (_, rank) => ({ rank, path: `root/node-${Math.floor(rank / 4)}/rank${rank}` }) as RankEntry);
const below = (path: string) => everyone.filter((rank) => path === "root" || rank.path.startsWith(`${path}/`) || rank.path === path);
const told = (...ranks: number[]) => ({ paths: ranks.slice(0, 64).map((rank) => everyone[rank]?.path ?? ""), rank_count: ranks.length }) as MetricEntry;
const of = (metric: MetricEntry, path: string) => tellersOf(metric, below(path), path);

it("whoever tells a metric is counted, and nobody else", () => {
  expect(of(told(0, 1, 2), "root")).toEqual({ count: 3, only: null, living: expect.any(Number) });
  expect(of(told(0), "root")).toEqual({ count: 1, only: 0, living: expect.any(Number) });
  expect(of(told(0, 4), "root/node-1")).toEqual({ count: 1, only: 4, living: expect.any(Number) });
  expect(of(told(0, 4), "root/node-1/rank4")).toEqual({ count: 1, only: 4, living: expect.any(Number) });
  expect(of(told(...everyone.map(({ rank }) => rank)), "root")).toEqual({ count: 100, only: null, living: expect.any(Number) });
  expect(of(told(...everyone.map(({ rank }) => rank)), "root/node-24")).toEqual({ count: 4, only: null, living: expect.any(Number) });
  expect(of(told(...everyone.map(({ rank }) => rank)), "root/node-24/rank99")).toEqual({ count: 1, only: 99, living: expect.any(Number) });
  expect(of({ paths: [], rank_count: 8 } as unknown as MetricEntry, "root")).toEqual({ count: 8, only: null, living: expect.any(Number) });
});

it("the newest count is of those who live: one who has stopped is not counted any more", () => {
  const nothing = [null, null, null, null];
  const entries = (...count: number[]) => ({ x: [0, 1, 2, 3], mean: nothing, min: nothing, max: nothing, count });
  expect(countAt(entries(2, 2, 2, 1), undefined, 2)).toBe(2); // the second is about to tell the newest
  expect(countAt(entries(2, 2, 2, 1), undefined, 1)).toBe(1);
  expect(countAt(entries(2, 2, 2, 1), undefined, 0)).toBe(1);
  expect(countAt(entries(2, 2, 2, 2), undefined, 0)).toBe(2);
  expect(countAt(entries(2, 2, 1, 1), 1, 0)).toBe(2);
});
