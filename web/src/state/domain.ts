// What x shows when nobody zoomed: the same for all charts, so that a metric that began late is seen to begin late.

import type { Model } from "./model";
import { isOver } from "./model";
import { pausedOf } from "./resumes";
import type { XAxis } from "../wire/types.gen";

export type Range = readonly [from: number, to: number];

export function domainOf(model: Model, axis: XAxis): Range {
  const { run } = model;
  if (axis === "step") return stepDomain(model);
  if (axis === "epoch") {
    const last = model.epochs[model.epochs.length - 1]?.epoch ?? run?.epoch ?? 1;
    const first = model.epochs[0]?.epoch ?? 0;
    return widened(Math.min(first, last), Math.max(last, run?.epoch ?? last));
  }
  const start = run?.started_at ?? 0;
  const end = isOver(run) ? (run?.ended_at ?? start) : start + (run?.elapsed_seconds ?? 0) + pausedOf(run);
  return axis === "time" ? widened(start, end) : widened(0, end - start);
}

function stepDomain(model: Model): Range {
  let from = Infinity;
  let to = -Infinity;
  for (const metric of model.metrics) {
    if (metric.first_step !== null && metric.first_step < from) from = metric.first_step;
    if (metric.last_step !== null && metric.last_step > to) to = metric.last_step;
  }
  return from <= to ? widened(from, to) : [0, 1];
}

function widened(from: number, to: number): Range {
  return to > from ? [from, to] : [from, from + 1];
}
