import { expect, it } from "vitest";
import { asRanks, asResources } from "../wire/guards";
import { loadOf } from "./load";

const gpu = { name: "H100", uuid: "a", util: 0.5, memory_used: 10, memory_total: 80, temperature: null, power: null, util_peak: null, memory_peak: null };
const rank = (number: number, more: object) => ({ rank: number, path: `root/a/rank${number}`, host: "a", state: "alive", ...more });
const records = asResources([
  { time: 1, path: "root", host: "a", rank: null, gpu_util: 0.9, vram_used: 20, vram_total: 160 },
  { time: 2, path: "root/a", host: "a", rank: null, cpu: 0.25 },
]);

it("is of those that live", () => {
  const ranks = asRanks([rank(0, { gpu }), rank(1, { gpu: { ...gpu, util: 1 }, state: "lost" })]);
  expect(loadOf(ranks, records, "root")).toMatchObject({ gpu: 0.5, vramUsed: 10, vramTotal: 80, since: null });
});

it("stays that of GPUs when their samples stop, and says since when", () => {
  const ranks = asRanks([rank(0, { gpu: null }), rank(1, { gpu: null })]);
  expect(loadOf(ranks, records, "root")).toMatchObject({ gpu: 0.9, vramUsed: 20, cpu: null, since: 1 });
});

it("is that of the end when all have gone", () => {
  const ranks = asRanks([rank(0, { gpu, state: "failed" })]);
  expect(loadOf(ranks, records, "root")).toMatchObject({ gpu: 0.5, since: 1 });
});

it("is of the CPU where no GPU has ever been", () => {
  const ranks = asRanks([rank(0, {})]);
  expect(loadOf(ranks, records.slice(1), "root")).toMatchObject({ gpu: null, cpu: 0.25, since: null });
});
