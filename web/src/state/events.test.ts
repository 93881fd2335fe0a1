import { expect, it } from "vitest";
import type { EventRecord } from "../wire/types.gen";
import { filtered, momentOf } from "./events";

function event(id: number, kind: string, severity: string, path: string, text: string): EventRecord {
  return { id, time: 1000 + id, path, kind, severity, text, count: 1, step: id === 3 ? 40 : null, last_time: null, active: false } as EventRecord;
}

const EVENTS = [
  event(1, "user", "info", "root/a/rank0", "resumed"),
  event(2, "rank lost", "critical", "root/a/rank1", "rank 1 is silent"),
  event(3, "non-finite", "warn", "root/b/rank10", "loss is NaN"),
  event(4, "finish", "info", "root", "the run finished"),
];
const ALL = { severity: "info", kind: "", path: "root", words: "" } as const;
const ids = (filter: Partial<Parameters<typeof filtered>[1]>) => filtered(EVENTS, { ...ALL, ...filter }).map(({ id }) => id);

it("events are shown by severity, class, rank, path and words", () => {
  expect(ids({})).toEqual([1, 2, 3, 4]);
  expect(ids({ severity: "warn" })).toEqual([2, 3]);
  expect(ids({ severity: "critical" })).toEqual([2]);
  expect(ids({ kind: "non-finite" })).toEqual([3]);
  expect([ids({ words: "rank 1" }), ids({ words: "Rank1" }), ids({ words: "rank10" })]).toEqual([[2], [2], [3]]);
  expect(ids({ words: "NAN" })).toEqual([3]);
  expect(ids({ path: "root/a" })).toEqual([1, 2, 4]);
});

it("an event leads to its moment on an axis that has it", () => {
  const [first, , third] = EVENTS as [EventRecord, EventRecord, EventRecord];
  expect(momentOf(third, "step", 900)).toEqual({ path: "root/b/rank10", tab: "overview", zoom: null, x: "step", at: 40 });
  expect(momentOf(first, "step", 900)).toMatchObject({ x: "relative", at: 101 });
  expect(momentOf(third, "time", 900)).toMatchObject({ x: "time", at: 1003 });
});
