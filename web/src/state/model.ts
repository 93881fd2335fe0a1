// What the page knows of the run. Pure: every change is `reduce(model, change) -> model`.

import type {
  EpochRecord,
  EventRecord,
  MetricEntry,
  PointsEvent,
  RankEntry,
  ResourceRecord,
  RunDocument,
} from "../wire/types.gen";
import { mergeEpochs, mergeEvents, mergeMetrics, mergeResources } from "./merge";

export interface Model {
  run: RunDocument | null;
  /** `performance.now()` when the run document came, ms: clocks of two machines are never subtracted. */
  runAt: number;
  /** When its step was first seen, ms of `performance.now()`. */
  stepAt: number;
  ranks: RankEntry[];
  ranksAt: number;
  /** In page order. */
  metrics: MetricEntry[];
  /** Ascending. */
  epochs: EpochRecord[];
  /** Ascending by id. */
  events: EventRecord[];
  /** The newest sample of each path, ascending by time. */
  resources: ResourceRecord[];
  complete: boolean;
}

export const EMPTY: Model = {
  run: null,
  runAt: 0,
  stepAt: 0,
  ranks: [],
  ranksAt: 0,
  metrics: [],
  epochs: [],
  events: [],
  resources: [],
  complete: false,
};

export type Change =
  | { kind: "run"; run: RunDocument; at: number }
  | { kind: "complete"; run: RunDocument; at: number }
  | { kind: "ranks"; ranks: RankEntry[]; at: number }
  | { kind: "metrics"; metrics: MetricEntry[] }
  | { kind: "points"; points: PointsEvent }
  | { kind: "epochs"; epochs: EpochRecord[] }
  | { kind: "events"; events: EventRecord[] }
  | { kind: "resources"; records: ResourceRecord[] };

export function reduce(model: Model, change: Change): Model {
  switch (change.kind) {
    case "run":
      return model.complete ? model : { ...model, run: change.run, runAt: change.at, stepAt: change.run.step === model.run?.step ? model.stepAt : change.at };
    case "complete":
      return { ...model, run: change.run, runAt: change.at, complete: true };
    case "ranks":
      return { ...model, ranks: change.ranks, ranksAt: change.at };
    case "metrics":
      return { ...model, metrics: change.metrics };
    case "points":
      return { ...model, metrics: mergeMetrics(model.metrics, change.points) };
    case "epochs":
      return { ...model, epochs: mergeEpochs(model.epochs, change.epochs) };
    case "events":
      return { ...model, events: mergeEvents(model.events, change.events) };
    case "resources":
      return { ...model, resources: mergeResources(model.resources, change.records) };
  }
}

/** Whether nothing more will come. */
export function isOver(run: RunDocument | null): boolean {
  return run !== null && (run.state === "finished" || run.state === "failed" || run.state === "terminated");
}

/** Whether somebody stopped the run, with Ctrl-C. */
export function isByHand(run: RunDocument | null): boolean {
  return run?.state_detail?.startsWith("stopped ") === true;
}
