import { expect, it } from "vitest";
import type { EpochRecord } from "../wire/types.gen";
import { bestOf } from "./epochs";
import { isSuperseded, placesOf, resumesOf } from "./resumes";

const TOLD = [{ generation: 1, time: 1000, step: 60, epoch: 3, reached: 99, paused_seconds: 600 }];
const RESUMES = resumesOf(TOLD);

function epoch(number: number, generation: number, loss: number, complete = true): EpochRecord {
  return {
    epoch: number, generation, complete, metrics: { loss }, seconds: 1, samples: null, batches: null, throughput: null, ranks: 1,
    ended_at: null, cpu: null, memory_used: null, memory_total: null, gpu: null, vram_used: null, vram_total: null,
  };
}

it("reads what a run says of its resumes, and nothing else", () => {
  expect(RESUMES).toEqual([{ generation: 1, time: 1000, step: 60, epoch: 3, reached: 99 }]);
  expect(resumesOf([null, 3, { time: 1 }, { generation: 2, time: 5, step: "x" }])).toEqual([{ generation: 2, time: 5, step: null, epoch: null, reached: null }]);
  expect(resumesOf({})).toEqual([]);
});

it("has a place on every axis that can tell it", () => {
  const at = (axis: "step" | "epoch" | "time" | "relative") => placesOf(RESUMES, axis, 400, (one) => one + 1);
  expect(at("step")).toEqual([{ x: 60, label: "resumed at step 60" }]);
  expect(at("epoch")).toEqual([{ x: 3, label: "resumed in epoch 4" }]);
  expect(at("time")).toEqual([{ x: 1000, label: "resumed at step 60" }]);
  expect(at("relative").map(({ x }) => x)).toEqual([600]);
  expect(placesOf(resumesOf([{ generation: 1, time: 1000 }]), "step", 0, (one) => one)).toEqual([]);
});

it("an epoch that is trained again is superseded, and neither it nor one cut short is the best", () => {
  const records = [epoch(1, 0, 0.9), epoch(2, 0, 0.8), epoch(3, 1, 0.7), epoch(4, 0, 0.1), epoch(5, 1, 0.2, false)];
  expect(records.map((record) => isSuperseded(record, RESUMES))).toEqual([false, false, false, true, false]);
  expect(bestOf("loss", records, RESUMES)).toBe(3);
});
