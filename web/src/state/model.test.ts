import { expect, it } from "vitest";
import { asEpoch, asEvent, asResources, asRun, asRanks, asBaked, asSeries } from "../wire/guards";
import { EMPTY, reduce } from "./model";
import { bestOf, metricColumns } from "./epochs";
import { bakedSource } from "./baked";
import { foundRanks, ordered, slowestOf } from "./standings";
import { treeRows } from "./tree";
import { heatOf } from "./heat";
import { trendOf } from "./trend";
import { inPageOrder } from "./merge";
import { momentOf } from "./events";

const run = asRun({ id: "r", name: "n", state: "running", ranks: {} });
const epoch = (number: number, metrics: Record<string, unknown>) => asEpoch({ epoch: number, metrics });
const rank = (number: number, own: number | null, more: object = {}) => ({ rank: number, path: `root/rank${number}`, state: "alive", own_step_seconds: own, ...more });

it("after the end nothing changes the run any more", () => {
  const over = reduce(EMPTY, { kind: "complete", run: { ...run, state: "finished" }, at: 1 });
  expect(reduce(over, { kind: "run", run, at: 2 }).run?.state).toBe("finished");
});

it("epochs, events and samples told twice are there once", () => {
  const first = reduce(EMPTY, { kind: "epochs", epochs: [epoch(1, { loss: 2 }), epoch(0, {})] });
  const amended = reduce(first, { kind: "epochs", epochs: [epoch(1, { loss: 1 })] });
  expect(amended.epochs.map((record) => [record.epoch, record.metrics["loss"]])).toEqual([[0, undefined], [1, 1]]);

  const event = asEvent({ id: 3, time: 1, kind: "k", severity: "warn", text: "t" });
  const twice = reduce(reduce(EMPTY, { kind: "events", events: [event] }), { kind: "events", events: [{ ...event, count: 5 }] });
  expect(twice.events.map((record) => record.count)).toEqual([5]);

  const records = asResources([{ time: 1, path: "root/a", host: "a" }, { time: 2, path: "root/a", host: "a" }, { time: 1, path: "root/b", host: "b" }]);
  const loaded = reduce(EMPTY, { kind: "resources", records });
  expect(reduce(loaded, { kind: "resources", records: records.slice(0, 1) }).resources.map(({ path, time }) => [path, time])).toEqual([["root/b", 1], ["root/a", 2]]);
});

it("test_b40 loss comes first, then by name; a metric that begins late is added", () => {
  const column = { epoch: [null], time: [0], mean: [1], min: [1], max: [1], count: [1], worst: [null] };
  const points = { metrics: { zeta: { step: [4], ...column }, loss: { step: [4], ...column } } };
  const model = reduce(EMPTY, { kind: "points", points });
  const later = reduce(model, { kind: "points", points: { metrics: { acc: { step: [9], ...column } } } });
  expect(later.metrics.map((metric) => [metric.name, metric.first_step])).toEqual([["loss", 4], ["acc", 9], ["zeta", 4]]);
});

it("test_b40 names are in the order of the server, whatever letters they have", () => {
  const names = ["\u{1f600}", "\uff5e", "10", "9", "b", "Loss", "loss", "a/loss", "é", "a"];
  expect([...names].sort(inPageOrder)).toEqual(["loss", "10", "9", "Loss", "a", "a/loss", "b", "é", "\uff5e", "\u{1f600}"]);
  expect(inPageOrder("a", "a")).toBe(0);
});

it("test_b48 columns are the union over all epochs; the best is marked where the name says what is better", () => {
  const epochs = [epoch(0, { val_acc: 0.5 }), epoch(1, { loss: 1, val_acc: 0.9 }), epoch(2, { loss: 2, val_acc: "NaN", lr: 1 })];
  expect(metricColumns(epochs)).toEqual(["loss", "lr", "val_acc"]);
  expect([bestOf("loss", epochs), bestOf("val_acc", epochs), bestOf("lr", epochs)]).toEqual([1, 1, null]);
});

it("ranks sort by any column with the unknown last; the slowest is named only when it stands out", () => {
  const ranks = asRanks([rank(0, 0.2), rank(1, null), rank(2, 0.3)]);
  expect(ordered(ranks, { column: "own", descending: true }).map((entry) => entry.rank)).toEqual([2, 0, 1]);
  expect(ordered(ranks, { column: "own", descending: false }).map((entry) => entry.rank)).toEqual([0, 2, 1]);
  expect(slowestOf(ranks)?.rank).toBe(2);
  expect(slowestOf(asRanks([rank(0, 0.2), rank(1, 0.205)]))).toBeNull();
  const blamed = (verdict: string) => asRanks([rank(0, 0.2), { ...rank(1, 0.205), verdict }, rank(2, 0.21)]);
  expect(slowestOf(blamed("straggler"))?.rank).toBe(1); // whoever is blamed is never one of "all alike"
  expect(slowestOf(blamed("memory growth"))).toBeNull();
});

it("metadata is searched in keys and values, and folds", () => {
  const tree = { model: { name: "resnet", deep: { er: { lr: 0.1 } } }, seed: 1 };
  expect(treeRows(tree, "", new Set()).rows.map((row) => row.pointer)).toEqual(["/model", "/model/name", "/model/deep", "/model/deep/er", "/seed"]);
  expect(treeRows(tree, "lr", new Set()).rows.map((row) => row.key)).toEqual(["model", "deep", "er", "lr"]);
  expect(treeRows(tree, "", new Set(["/model"])).rows.map((row) => row.key)).toEqual(["model", "seed"]);
  expect(treeRows("just text", "", new Set()).rows[0]?.text).toBe("just text");
});

it("the row that differs is found", () => {
  const rows = [0.9, 0.9, 0.5, 0.9].map((level, i) => ({ rank: i, path: `root/rank${i}`, x: [0, 1, 2], values: [level, null, level] }));
  const heat = heatOf(rows, 10);
  expect(heat?.odd).toEqual({ rank: 2, mean: 0.5, usual: 0.9 });
  expect(heat?.cells[2]).toEqual(Float64Array.of(0.5, NaN, 0.5));
  expect(heatOf([], 10)).toBeNull();
});

it("says whether it learns", () => {
  const entries = (mean: (number | null)[]) => ({ x: mean.map((_, i) => i), mean, min: mean, max: mean, count: mean.map(() => 1) });
  const line = (f: (i: number) => number) => Array.from({ length: 100 }, (_, i) => f(i));
  expect(trendOf(entries(line((i) => 10 - i / 20)))).toBe("falling");
  expect(trendOf(entries(line((i) => i)))).toBe("rising");
  expect(trendOf(entries(line(() => 2)))).toBe("flat");
  expect(trendOf(entries([1, 2, NaN]))).toBe("not finite");
  expect(trendOf(entries([1, 2]))).toBeNull();
  const hash = (n: number) => ((Math.imul(n, 2654435761) ^ (Math.imul(n, 40503) >>> 5)) >>> 0) / 2 ** 32;
  const told = Array.from({ length: 200 }, (_, seed) => trendOf(entries(line((i) => 2 + hash(seed * 1000 + i) / 10))));
  expect(told.filter((word) => word !== "flat").length).toBeLessThan(20); // scatter is no trend
});

it("an event leads to its moment on an axis that has it", () => {
  const event = asEvent({ id: 1, time: 1010, kind: "k", severity: "info", text: "t", path: "root/rank1", step: null });
  expect(momentOf(event, "step", 1000)).toMatchObject({ path: "root/rank1", x: "relative", at: 10 });
  expect(momentOf({ ...event, step: 7 }, "step", 1000)).toMatchObject({ x: "step", at: 7 });
});

it("a report answers like a server", async () => {
  const series = { metric: "loss", path: "root", step: [0, 10, 20], epoch: [0, 0, 1], time: [100, 110, 120], mean: [4, 2, 1], min: [4, 2, 1], max: [5, 2, 1], count: [1, 1, 1] };
  const baked = asBaked({ run: { id: "r", name: "n", state: "finished", ranks: {}, started_at: 100 }, series: [series] });
  const source = bakedSource(baked.series, 100);
  const ask = (x: "step" | "epoch" | "relative", from: number | null = null) => source.series({ metric: "loss", path: "root", x, from, to: null, points: 10 });
  expect((await ask("relative")).x).toEqual([0, 10, 20]);
  expect((await ask("step", 10)).x).toEqual([10, 20]);
  const epochs = await ask("epoch");
  expect([epochs.x, epochs.mean, epochs.max]).toEqual([[0, 1], [3, 1], [5, 1]]);
  await expect(source.series({ metric: "no", path: "root", x: "step", from: null, to: null, points: 1 })).rejects.toThrow();
});

it("what has the wrong shape is refused at the edge", () => {
  expect(() => asRun({ id: 1 })).toThrow("run.id");
  expect(() => asSeries({ metric: "a", path: "root", x: [1], mean: [], min: [], max: [], count: [] })).toThrow("different lengths");
  expect(() => asRanks({})).toThrow("no list");
});

it("ranks are found by number, host, state and verdict, and all words must fit", () => {
  const ranks = asRanks([rank(1, 0, { host: "gpu-001" }), rank(11, 0, { host: "gpu-001", state: "failed" }), rank(12, 0, { host: "gpu-002", verdict: "straggler" })]);
  const found = (words: string) => foundRanks(ranks, words).map((entry) => entry.rank);
  expect([found(""), found("1"), found("rank1"), found("GPU-001 failed"), found("straggler"), found("none")]).toEqual([[1, 11, 12], [1], [1, 11, 12], [11], [12], []]);
});
