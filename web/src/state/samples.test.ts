import { expect, it } from "vitest";
import { asGauges, asResources } from "../wire/guards";
import { GAUGES, gaugeLines, snapped } from "./gauges";
import { Samples } from "./samples";

const record = (time: number, rank: number, more: object = {}) => ({ time, path: `root/a/rank${rank}`, host: "a", rank, ...more });
const gpu = GAUGES.find(({ key }) => key === "gpu")!;
const lines = (samples: Samples) => gaugeLines(samples, gpu, "root", "relative", 100).lines;

it("a sample told twice is there once, and what was not measured is unknown", () => {
  const samples = new Samples();
  samples.take(asResources([record(101, 0), record(102, 0, { gpu_util: 0.5 })]));
  samples.take(asResources([record(102, 0, { gpu_util: 0.5 }), record(103, 0)]));
  const track = samples.tracks.get("root/a/rank0");
  expect(track?.time).toEqual([101, 102, 103]);
  expect(track?.values).toEqual({ gpu_util: [NaN, 0.5, NaN] });
});

it("what the server keeps is loaded before what came since, each sample once", () => {
  const samples = new Samples();
  samples.take(asResources([record(103.001, 0, { gpu_util: 0.3, power: 5 }), record(104, 0, { gpu_util: 0.4, power: 6 })]));
  samples.load(asGauges({ origin: 100, tracks: [{ path: "root/a/rank0", host: "a", rank: 0, time: [1, 3], values: { gpu_util: [0.1, 0.3] } }], latest: [] }));
  expect(samples.tracks.get("root/a/rank0")).toMatchObject({ time: [101, 103, 104], values: { gpu_util: [0.1, 0.3, 0.4], power: [NaN, NaN, 6] } });
});

it("columns that are not as long as their times are refused", () => {
  expect(() => asGauges({ origin: 0, tracks: [{ path: "p", host: "a", time: [1], values: { cpu: [1, 2] } }] })).toThrow("lengths");
});

it("a page that is open for a day has all of the day, within bounds, for a thousand ranks too", () => {
  const samples = new Samples();
  const records = asResources(Array.from({ length: 300 }, (_, rank) => record(0, rank, { gpu_util: 0 })));
  for (let at = 0; at < 900; at++) {
    for (const one of records) Object.assign(one, { time: at, gpu_util: at / 900 });
    samples.take(records);
  }
  const { time, values } = samples.tracks.get("root/a/rank7")!;
  expect([time[0], time[time.length - 1]]).toEqual([0, 899]);
  expect(time.length).toBeLessThan(700);
  expect(time.length).toBeGreaterThan(300);
  expect(values.gpu_util).toHaveLength(time.length);
});

it("a curve has a gap where samples stopped for a while, and none where older ones are fewer", () => {
  const samples = new Samples();
  const times = [...Array.from({ length: 10 }, (_, i) => 100 + i * 8), ...Array.from({ length: 10 }, (_, i) => 176 + i * 2)];
  samples.take(asResources([...times, ...times.map((at) => at + 200)].map((at) => record(at, 0, { gpu_util: 0.5 }))));
  const [line] = lines(samples);
  expect(line?.values.filter((value) => value === null)).toHaveLength(1);
  const gap = line?.values.indexOf(null) ?? -1;
  expect([line?.x[gap - 1], line?.x[gap + 1]]).toEqual([94, 200]);
});

it("of many lines the few that are far from the others stand out; of lines that are alike none does", () => {
  const samples = new Samples();
  samples.take(asResources(Array.from({ length: 64 }, (_, rank) => record(101, rank, { gpu_util: rank === 33 ? 0.3 : 0.9 + (rank % 5) / 100 }))));
  expect(lines(samples)).toHaveLength(32);
  expect(lines(samples).flatMap((line) => (line.isOdd ? [line.label] : []))).toEqual(["rank 33"]);
  const alike = new Samples();
  alike.take(asResources(Array.from({ length: 8 }, (_, rank) => record(101, rank, { gpu_util: 0.9 + rank / 100 }))));
  expect(lines(alike).some((line) => line.isOdd)).toBe(false);
});

it("very many lines share few moments, and keep their gaps", () => {
  const line = { key: "k", label: "l", mean: 1, isOdd: false, x: [0, 0.4, 1, 5, 9, 10], values: [1, 2, 3, null, 4, 5] };
  expect(snapped([line], 10)).toEqual([{ ...line, x: [0, 1, 5, 9, 10], values: [2, 3, null, 4, 5] }]);
});
