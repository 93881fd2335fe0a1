// Resource samples as columns, a track for each path. They stay bounded however long the page is open: what is old gets
// coarser, and is never cut off.

import type { GaugesAnswer, ResourceRecord } from "../wire/types.gen";

export const FIGURES = [
  "cpu", "memory_used", "memory_total", "network_received", "network_sent", "disk_read", "disk_written",
  "gpu_util", "gpu_util_peak", "vram_used", "temperature", "power",
] as const;
export type Figure = (typeof FIGURES)[number];

export interface Track {
  path: string;
  host: string;
  rank: number | null;
  /** UTC epoch seconds, ascending. */
  time: number[];
  /** As long as `time`; NaN where nothing was measured. A figure nobody measured is absent. */
  values: Partial<Record<Figure, number[]>>;
}

const KEPT = 200_000;
const MOST_KEPT = 3600;
const LEAST_KEPT = 60;

export class Samples {
  readonly tracks = new Map<string, Track>();

  /** New samples, oldest first; one that is told twice is there once. */
  take(records: readonly ResourceRecord[]): void {
    for (const record of records) {
      const track = this.trackOf(record);
      if (record.time <= (track.time[track.time.length - 1] ?? -Infinity)) continue;
      track.time.push(record.time);
      for (const figure of FIGURES) {
        const value = record[figure];
        const column = track.values[figure] ?? (value === null ? undefined : (track.values[figure] = new Array<number>(track.time.length - 1).fill(NaN)));
        column?.push(value ?? NaN);
      }
      this.bound(track);
    }
  }

  /** The whole course as the server keeps it; what came since stays behind it. */
  load({ origin, tracks }: GaugesAnswer): void {
    for (const { path, host, rank, time, values } of tracks) {
      const loaded: Track = { path, host, rank, time: time.map((at) => at + origin), values: {} };
      for (const figure of FIGURES) {
        const column = values[figure];
        if (column !== undefined) loaded.values[figure] = column.map((value) => value ?? NaN);
      }
      const old = this.tracks.get(path);
      this.tracks.set(path, old === undefined ? loaded : joined(loaded, old));
      this.bound(this.tracks.get(path) ?? loaded);
    }
  }

  private trackOf({ path, host, rank }: ResourceRecord): Track {
    let track = this.tracks.get(path);
    if (track === undefined) this.tracks.set(path, (track = { path, host, rank, time: [], values: {} }));
    return track;
  }

  private bound(track: Track): void {
    if (track.time.length <= Math.max(LEAST_KEPT, Math.min(MOST_KEPT, KEPT / this.tracks.size))) return;
    const half = track.time.length >> 1;
    const thin = (column: number[]) => column.filter((_, i) => i > half || i % 2 === 0);
    track.time = thin(track.time);
    for (const figure of FIGURES) {
      const column = track.values[figure];
      if (column !== undefined) track.values[figure] = thin(column);
    }
  }
}

/** Times are loaded to hundredths: the same sample is not there twice. */
const SAME_S = 0.05;

function joined(first: Track, then: Track): Track {
  const last = (first.time[first.time.length - 1] ?? -Infinity) + SAME_S;
  const from = then.time.findIndex((at) => at > last);
  if (from < 0) return first;
  const count = then.time.length - from;
  const blank = (length: number) => new Array<number>(length).fill(NaN);
  for (const figure of FIGURES) {
    const [left, right] = [first.values[figure], then.values[figure]];
    if (left === undefined && right === undefined) continue;
    first.values[figure] = [...(left ?? blank(first.time.length)), ...(right?.slice(from) ?? blank(count))];
  }
  first.time = [...first.time, ...then.time.slice(from)];
  return first;
}
