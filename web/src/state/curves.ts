// The charts' cache: what is in view is loaded, kept current from the stream, and loaded again when it must be.

import { signal, type Signal } from "@preact/signals";
import type { PointsEvent, SeriesAnswer, XAxis } from "../wire/types.gen";
import { baseOf, emptyEntries, joined, marksOf, Tail, within, type Base, type Entries, type Mark } from "./columns";

export interface SeriesQuery {
  metric: string;
  path: string;
  x: XAxis;
  from: number | null;
  to: number | null;
  points: number;
}

/** Where series come from: the server, or the data inside a report. */
export interface SeriesSource {
  /** Rejects with `NoSuchSeries` when the path has no such metric, with `RefusedSeries` when it cannot be had now. */
  series(query: SeriesQuery): Promise<SeriesAnswer>;
}

export class NoSuchSeries extends Error {}

/** The server has an answer and it is no; the message says why. */
export class RefusedSeries extends Error {}

/** There is such a series, but not in what a report, or a page whose controller has gone, holds. */
export class NotKept extends Error {}

export type Zoom = readonly [from: number, to: number] | null;

const POINTS = 1000;
const PARALLEL = 4;
const TAIL_LIMIT = 2000;
const POLL_MS = 3000;

/** One metric of one path on one axis. */
export class Curve {
  readonly changed: Signal<number> = signal(0);
  base: Base | null = null;
  window: { zoom: NonNullable<Zoom>; base: Base } | null = null;
  tail = new Tail();
  state: "empty" | "ready" | "absent" | "unkept" | "unreachable" = "empty";
  /** Why it is unreachable, in the server's words; null: nobody answers. */
  refusal: string | null = null;
  wanted = false;
  stale = true;
  loading = false;
  loadedAt = -Infinity;
  users = 0;
  private cached: { version: number; zoom: Zoom; entries: Entries; marks: Mark[] } | null = null;

  constructor(
    readonly metric: string,
    readonly path: string,
    readonly axis: XAxis,
  ) {}

  /** Columns and marks for the zoom; the same objects until something changed. */
  view(zoom: Zoom, origin: number): { entries: Entries; marks: Mark[] } {
    const version = this.changed.value;
    if (this.cached !== null && this.cached.version === version && sameZoom(this.cached.zoom, zoom)) return this.cached;
    const base = zoom !== null && this.window !== null && sameZoom(this.window.zoom, zoom) ? this.window.base : this.base;
    const all = joined(base, this.tail, this.axis, origin);
    const entries = zoom === null ? all : within(all, zoom[0], zoom[1]);
    this.cached = { version, zoom, entries, marks: marksOf(entries, base?.marks ?? []) };
    return this.cached;
  }

  touch(): void {
    this.changed.value += 1;
  }
}

function sameZoom(a: Zoom, b: Zoom): boolean {
  return a === b || (a !== null && b !== null && a[0] === b[0] && a[1] === b[1]);
}

export class Curves {
  private readonly byKey = new Map<string, Curve>();
  private running = 0;
  private streamed = "root";
  private zoom: Zoom = null;
  private preloads: Curve[] = [];
  /** The newest steps of every metric, as the stream began with them. */
  private seed: PointsEvent | null = null;
  private isGreeted = false;
  /** Nothing will come any more: what is there is as fine as it will be. */
  frozen = false;

  constructor(private readonly source: SeriesSource) {}

  get(metric: string, path: string, axis: XAxis): Curve {
    const key = `${axis} ${path} ${metric}`;
    let curve = this.byKey.get(key);
    if (curve === undefined) {
      curve = new Curve(metric, path, axis);
      this.byKey.set(key, curve);
    }
    return curve;
  }

  /** Says that a chart with this curve came into view; returns the way to say that it left. */
  use(curve: Curve): () => void {
    curve.users += 1;
    curve.wanted = true;
    this.sow(curve);
    this.pump();
    return () => {
      curve.users -= 1;
      curve.wanted = curve.users > 0;
    };
  }

  /** Loads these too, one by one, when nothing in view waits: a page left open keeps everything. */
  preload(curves: Curve[]): void {
    this.preloads = curves.filter((curve) => curve.state === "empty");
    this.pump();
  }

  setZoom(zoom: Zoom): void {
    if (sameZoom(this.zoom, zoom)) return;
    this.zoom = zoom;
    this.pump();
  }

  /** A stream begins: the points that come first are the newest steps of everything. */
  greet(): void {
    this.seed = null;
    this.isGreeted = true;
  }

  /** What the stream began with is drawn at once; the rest follows when it is loaded. */
  private sow(curve: Curve): void {
    const update = this.seed?.metrics[curve.metric];
    const isBare = curve.state === "empty" && curve.tail.length === 0 && curve.axis !== "epoch";
    if (update === undefined || !isBare || curve.path !== this.streamed) return;
    curve.tail.take(update, performance.now());
    curve.touch();
  }

  /** Points of the streamed path. */
  take(event: PointsEvent): void {
    if (this.isGreeted) this.seed = event;
    this.isGreeted = false;
    for (const curve of this.byKey.values()) {
      const update = event.metrics[curve.metric];
      if (update === undefined || curve.path !== this.streamed) continue;
      if (curve.axis === "epoch") {
        curve.stale = true;
      } else if (curve.loading || curve.base !== null || curve.state === "absent") {
        curve.tail.take(update, performance.now());
        if (curve.state === "absent") curve.stale = true;
        curve.touch();
      }
    }
  }

  /** What was known may not stand any more: all that is in use is loaded anew, and nothing of before is added to it. */
  forget(): void {
    this.seed = null;
    for (const curve of this.byKey.values()) {
      curve.tail = new Tail();
      curve.window = null;
      curve.stale = true;
    }
    this.pump();
  }

  /** A fresh stream on `path`: what its tails missed must be loaded. */
  restart(path: string): void {
    if (path !== this.streamed) this.seed = null;
    this.streamed = path;
    for (const curve of this.byKey.values()) curve.stale = true;
    this.pump();
  }

  /** Called once a second: what is polled, and tails that grew long. */
  tick(nowMs: number): void {
    for (const curve of this.byKey.values()) if (curve.tail.settle(nowMs)) curve.touch();
    if (this.frozen) return;
    for (const curve of this.byKey.values()) {
      if (!curve.wanted || curve.loading) continue;
      const isPolled = curve.path !== this.streamed;
      const isDue = nowMs - curve.loadedAt > POLL_MS;
      if (isDue && (isPolled || curve.state === "unreachable")) curve.stale = true;
      if (curve.tail.length > Math.max(TAIL_LIMIT, 2 * (curve.base?.x.length ?? 0))) curve.stale = true;
    }
    this.pump();
  }

  private needs(curve: Curve): "base" | "window" | null {
    if (curve.loading || (this.frozen && curve.base !== null)) return null;
    const isSoon = performance.now() - curve.loadedAt < POLL_MS && curve.state === "ready" && curve.axis === "epoch";
    const isRetry = curve.state === "unreachable" && performance.now() - curve.loadedAt < POLL_MS;
    if (curve.stale && !isSoon && !isRetry) return "base";
    const isDecimated = curve.base?.decimated ?? false;
    return this.zoom !== null && isDecimated && !sameZoom(curve.window?.zoom ?? null, this.zoom) ? "window" : null;
  }

  private pump(): void {
    for (const curve of this.byKey.values()) {
      if (this.running >= PARALLEL) return;
      if (!curve.wanted) continue;
      const need = this.needs(curve);
      if (need !== null) void this.load(curve, need === "window" ? this.zoom : null);
    }
    while (this.running === 0 && this.preloads.length > 0) {
      const next = this.preloads.shift();
      if (next !== undefined && next.state === "empty" && !next.loading) void this.load(next, null);
    }
  }

  private async load(curve: Curve, zoom: Zoom): Promise<void> {
    curve.loading = true;
    if (zoom === null) curve.stale = false;
    this.running += 1;
    const upTo = zoom === null ? tailCut(curve) : null;
    try {
      const { metric, path, axis } = curve;
      const [from, to] = zoom ?? [null, upTo];
      const answer = await this.source.series({ metric, path, x: axis, from, to, points: POINTS });
      const base = baseOf(answer, zoom === null ? to : reached(curve, zoom[1]));
      if (zoom !== null) curve.window = { zoom, base };
      else this.rebase(curve, base, upTo);
      curve.state = "ready";
    } catch (error) {
      curve.state = curve.base !== null ? "ready" : error instanceof NoSuchSeries ? "absent" : error instanceof NotKept ? "unkept" : "unreachable";
      curve.refusal = error instanceof RefusedSeries ? error.message : null;
      if (zoom !== null) curve.window = { zoom, base: curve.base ?? baseOf(NOTHING, null) };
      else if (!(error instanceof NoSuchSeries || error instanceof NotKept)) curve.stale = true;
    } finally {
      curve.loading = false;
      curve.loadedAt = performance.now();
      this.running -= 1;
      curve.touch();
      this.pumpSoon();
    }
  }

  private rebase(curve: Curve, base: Base, upTo: number | null): void {
    curve.base = base;
    curve.window = null;
    if (this.frozen) curve.tail = new Tail(); // the base is all there is
    else if (upTo !== null) curve.tail.dropUpTo(upTo);
  }

  private pumpSoon(): void {
    queueMicrotask(() => this.pump());
  }
}

/** Where a long tail is cut so that the new base ends exactly there; null to ask for everything. */
function tailCut(curve: Curve): number | null {
  if (curve.axis !== "step" || curve.tail.length < 100) return null;
  return curve.tail.step[Math.floor(curve.tail.length * 0.9)] ?? null;
}

/** How far a window's answer is known to reach: a zoom may end where nothing is yet, and what comes there is drawn. */
function reached(curve: Curve, to: number): number | null {
  const last = curve.base?.x[curve.base.x.length - 1] ?? -Infinity;
  return to <= last ? to : null;
}

const NOTHING: SeriesAnswer = {
  metric: "", path: "", ...emptyEntries(), total_points: 0, reduction: "mean", std: [], x_kind: "step", decimated: false,
  non_finite: [],
};
