// A curve's data: a base the server made (whole or decimated) and the raw tail the stream has brought since.

import { lowerBound } from "../lib/search";
import { real } from "../wire/numbers";
import type { PointsUpdate, SeriesAnswer, XAxis } from "../wire/types.gen";

/** Columns of equal length, ascending in `x`. NaN and infinities are themselves; null is unknown. */
export interface Entries {
  x: number[];
  mean: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
  count: number[];
}

export interface Mark {
  x: number;
  what: "NaN" | "Infinity" | "-Infinity";
}

export interface Base extends Entries {
  marks: Mark[];
  decimated: boolean;
  reduction: string;
  totalPoints: number;
  /** Everything at or below this x is in the base; -Infinity when it is empty. */
  upTo: number;
}

export function emptyEntries(): Entries {
  return { x: [], mean: [], min: [], max: [], count: [] };
}

/** @param to The upper end that was asked for, or null. */
export function baseOf(answer: SeriesAnswer, to: number | null): Base {
  const out: Base = {
    ...emptyEntries(),
    marks: [],
    decimated: answer.decimated,
    reduction: answer.reduction,
    totalPoints: answer.total_points,
    upTo: -Infinity,
  };
  for (let i = 0; i < answer.x.length; i++) {
    const x = real(answer.x[i]);
    if (x === null || !Number.isFinite(x)) continue;
    out.x.push(x);
    out.mean.push(real(answer.mean[i]));
    out.min.push(real(answer.min[i]));
    out.max.push(real(answer.max[i]));
    out.count.push(answer.count[i] ?? 0);
  }
  for (const [at, what] of answer.non_finite) {
    const x = real(at);
    if (x !== null && (what === "NaN" || what === "Infinity" || what === "-Infinity")) out.marks.push({ x, what });
  }
  out.upTo = to ?? out.x[out.x.length - 1] ?? -Infinity;
  return out;
}

/** A step that less than half the ranks of the one before have told waits so long for the others, ms. */
const HOLD_MS = 1000;

/**
 * Steps the stream brought, ascending; a step told twice is kept once, the fuller one of the two.
 *
 * The newest ones are settled when half the ranks of the one before have told them, when a later one was told by so many, or
 * when they have waited: the mean of those who happened to be first is no cohort's, and all of them would take too long.
 */
export class Tail {
  readonly step: number[] = [];
  readonly epoch: (number | null)[] = [];
  readonly time: number[] = [];
  readonly mean: (number | null)[] = [];
  readonly min: (number | null)[] = [];
  readonly max: (number | null)[] = [];
  readonly count: number[] = [];
  /** When each came, ms. */
  private readonly cameAt: number[] = [];
  /** How many are settled. */
  private edge = 0;

  get length(): number {
    return this.step.length;
  }

  take(update: PointsUpdate, nowMs = 0): void {
    for (let i = 0; i < update.step.length; i++) {
      const step = update.step[i] ?? 0;
      const last = this.step[this.step.length - 1];
      const at = last === undefined || step > last ? this.step.length : lowerBound(this.step, step);
      if (this.step[at] !== step) this.insert(at, step, nowMs);
      else if ((update.count[i] ?? 0) < (this.count[at] ?? 0)) continue;
      this.epoch[at] = update.epoch[i] ?? null;
      this.time[at] = update.time[i] ?? NaN;
      this.mean[at] = real(update.mean[i]);
      this.min[at] = real(update.min[i]);
      this.max[at] = real(update.max[i]);
      this.count[at] = update.count[i] ?? 0;
    }
    this.settle(nowMs);
  }

  /** Whether more is settled than before. */
  settle(nowMs: number): boolean {
    const { count, edge } = this;
    for (let next = edge, held = -1; next < count.length; next++) {
      const isTold = 2 * (count[next] ?? 0) >= (count[Math.max(0, (held < 0 ? next : held) - 1)] ?? 0);
      if (isTold || nowMs - (this.cameAt[next] ?? 0) >= HOLD_MS) {
        this.edge = next + 1;
        held = -1;
      } else if (held < 0) held = next;
    }
    return this.edge > edge;
  }

  /** The first step that is not settled; Infinity when all are. */
  get unsettled(): number {
    return this.step[this.edge] ?? Infinity;
  }

  private insert(at: number, step: number, nowMs: number): void {
    if (at < this.edge) this.edge += 1;
    this.cameAt.splice(at, 0, nowMs);
    this.step.splice(at, 0, step);
    for (const column of [this.epoch, this.mean, this.min, this.max]) column.splice(at, 0, null);
    this.time.splice(at, 0, NaN);
    this.count.splice(at, 0, 0);
  }

  /** Forgets steps at or below `step`. */
  dropUpTo(step: number): void {
    const cut = lowerBound(this.step, step + 1);
    for (const column of [this.step, this.epoch, this.time, this.mean, this.min, this.max, this.count, this.cameAt]) {
      column.splice(0, cut);
    }
    this.edge = Math.max(0, this.edge - cut);
  }

  /** What is settled, as entries of one x axis. `origin` is the run's start, UTC seconds. */
  entries(axis: XAxis, origin: number): Entries {
    const x = axis === "step" ? this.step : this.time.map((time) => (axis === "relative" ? time - origin : time));
    const order = [...x.keys()].slice(0, this.edge);
    if (axis !== "step") order.sort((a, b) => (x[a] ?? 0) - (x[b] ?? 0));
    const pick = <T,>(column: T[]): T[] => order.map((i) => column[i] as T);
    return { x: pick(x), mean: pick(this.mean), min: pick(this.min), max: pick(this.max), count: pick(this.count) };
  }
}

function push(out: Entries, from: Entries, i: number): void {
  out.x.push(from.x[i] ?? 0);
  out.mean.push(from.mean[i] ?? null);
  out.min.push(from.min[i] ?? null);
  out.max.push(from.max[i] ?? null);
  out.count.push(from.count[i] ?? 0);
}

/** Base and tail as one, each x once. */
export function joined(base: Base | null, tail: Tail, axis: XAxis, origin: number): Entries {
  const live = axis === "epoch" ? emptyEntries() : tail.entries(axis, origin);
  if (base === null) return live;
  if (axis === "step" && !base.decimated) return fuller(base, live, tail.unsettled);
  const out: Entries = { x: [...base.x], mean: [...base.mean], min: [...base.min], max: [...base.max], count: [...base.count] };
  for (let i = 0; i < live.x.length; i++) if ((live.x[i] ?? 0) > base.upTo) push(out, live, i);
  return out;
}

/** Of both the fuller entry of each x below `end`. */
function fuller(a: Entries, b: Entries, end: number): Entries {
  const out = emptyEntries();
  let i = 0;
  let j = 0;
  while (i < a.x.length || j < b.x.length) {
    const left = a.x[i] ?? Infinity;
    const right = b.x[j] ?? Infinity;
    if (Math.min(left, right) >= end) break;
    if (left < right) push(out, a, i++);
    else if (right < left) push(out, b, j++);
    else {
      if ((b.count[j] ?? 0) >= (a.count[i] ?? 0)) push(out, b, j);
      else push(out, a, i);
      i++;
      j++;
    }
  }
  return out;
}

/** The entries within `[from, to]` and one neighbour on either side, so that lines run to the edges. */
export function within(entries: Entries, from: number, to: number): Entries {
  const start = Math.max(0, lowerBound(entries.x, from) - 1);
  const end = Math.min(entries.x.length, lowerBound(entries.x, to) + 2);
  return {
    x: entries.x.slice(start, end),
    mean: entries.mean.slice(start, end),
    min: entries.min.slice(start, end),
    max: entries.max.slice(start, end),
    count: entries.count.slice(start, end),
  };
}

/** Where entries are not finite, with the base's own marks; each (x, kind) once. */
export function marksOf(entries: Entries, known: Mark[]): Mark[] {
  const marks = new Map(known.map((mark) => [`${mark.x} ${mark.what}`, mark]));
  for (let i = 0; i < entries.x.length; i++) {
    for (const value of [entries.mean[i], entries.min[i], entries.max[i]]) {
      if (value === null || value === undefined || Number.isFinite(value)) continue;
      const what = Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
      const x = entries.x[i] ?? 0;
      marks.set(`${x} ${what}`, { x, what });
    }
  }
  return [...marks.values()].sort((a, b) => a.x - b.x);
}

/** What is not finite at a place, or at the end; null where it is. */
export function badAt({ x, mean }: Entries, at: number | undefined): number | null {
  const value = at === undefined ? mean[mean.length - 1] : x.includes(at) ? mean[x.indexOf(at)] : null;
  return typeof value === "number" && !Number.isFinite(value) ? value : null;
}
