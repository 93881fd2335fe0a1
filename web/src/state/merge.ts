// Merging what a stream repeats: the same thing told twice is one thing.

import type { EpochRecord, EventRecord, MetricEntry, PointsEvent, ResourceRecord } from "../wire/types.gen";

function mergeBy<T>(old: T[], fresh: T[], key: (item: T) => number): T[] {
  if (fresh.length === 0) return old;
  const byKey = new Map(old.map((item) => [key(item), item]));
  for (const item of fresh) byKey.set(key(item), item);
  return [...byKey.values()].sort((a, b) => key(a) - key(b));
}

/** A later record of the same epoch amends it. */
export function mergeEpochs(old: EpochRecord[], fresh: EpochRecord[]): EpochRecord[] {
  return mergeBy(old, fresh, (record) => record.epoch);
}

/** A later record of the same id carries the newer count and activity. */
export function mergeEvents(old: EventRecord[], fresh: EventRecord[]): EventRecord[] {
  return mergeBy(old, fresh, (record) => record.id);
}

/** The newest sample of each path, ascending by time. */
export function mergeResources(old: ResourceRecord[], fresh: ResourceRecord[]): ResourceRecord[] {
  const newest = new Map(old.map((record) => [record.path, record]));
  for (const record of fresh) if (record.time >= (newest.get(record.path)?.time ?? -Infinity)) newest.set(record.path, record);
  return fresh.length === 0 ? old : [...newest.values()].sort((a, b) => a.time - b.time);
}

/** `loss` first, then by name: the order of page, CSV and lines. */
export function inPageOrder(a: string, b: string): number {
  if (a === b) return 0;
  if (a === "loss") return -1;
  if (b === "loss") return 1;
  return byCodePoint(a, b);
}

/** As the server sorts: `<` compares UTF-16 units, which puts an emoji before some letters that it comes after. */
function byCodePoint(a: string, b: string): number {
  const left = a[Symbol.iterator]();
  const right = b[Symbol.iterator]();
  for (;;) {
    const x = left.next();
    const y = right.next();
    if (x.done === true || y.done === true) return x.done === true ? -1 : 1;
    const difference = (x.value.codePointAt(0) ?? 0) - (y.value.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
}

function blank(name: string): MetricEntry {
  return {
    name,
    kind: "gauge",
    unit: null,
    reduction: "mean",
    paths: [],
    rank_count: 0,
    points: 0,
    first_step: null,
    last_step: null,
    last: null,
    non_finite: 0,
  };
}

/** Metrics with the latest value and steps of what just came; a name never seen is added. */
export function mergeMetrics(old: MetricEntry[], points: PointsEvent): MetricEntry[] {
  const byName = new Map(old.map((metric) => [metric.name, metric]));
  let added = false;
  for (const [name, update] of Object.entries(points.metrics)) {
    const end = update.step.length - 1;
    const first = update.step[0];
    const last = update.step[end];
    if (first === undefined || last === undefined) continue;
    const known = byName.get(name);
    added ||= known === undefined;
    const before = known ?? blank(name);
    const isNewest = before.last_step === null || last >= before.last_step;
    byName.set(name, {
      ...before,
      first_step: Math.min(before.first_step ?? first, first),
      last_step: Math.max(before.last_step ?? last, last),
      last: isNewest ? (update.mean[end] ?? null) : before.last,
      rank_count: Math.max(before.rank_count, update.count[end] ?? 0),
    });
  }
  const merged = [...byName.values()];
  return added ? merged.sort((a, b) => inPageOrder(a.name, b.name)) : merged;
}
