// Resource samples over time: for each gauge one line a host or a rank.

import { mean, median } from "./load";
import type { Figure, Samples, Track } from "./samples";
import { isWithin } from "./view";

export type Unit = "ratio" | "bytes" | "bytes/s" | "°C" | "W";

export interface Gauge {
  key: string;
  title: string;
  unit: Unit;
  of: "host" | "rank";
  group: "GPU" | "CPU and memory" | "Network and disk";
  figure: Figure;
  /** What the figure is a part of. */
  whole?: Figure;
}

export const GAUGES: readonly Gauge[] = [
  { key: "gpu", title: "GPU utilisation", unit: "ratio", of: "rank", group: "GPU", figure: "gpu_util" },
  { key: "vram", title: "GPU memory", unit: "bytes", of: "rank", group: "GPU", figure: "vram_used" },
  { key: "temperature", title: "GPU temperature", unit: "°C", of: "rank", group: "GPU", figure: "temperature" },
  { key: "power", title: "GPU power", unit: "W", of: "rank", group: "GPU", figure: "power" },
  { key: "cpu", title: "CPU", unit: "ratio", of: "host", group: "CPU and memory", figure: "cpu" },
  { key: "memory", title: "Memory", unit: "ratio", of: "host", group: "CPU and memory", figure: "memory_used", whole: "memory_total" },
  { key: "rank cpu", title: "CPU of each rank", unit: "ratio", of: "rank", group: "CPU and memory", figure: "cpu" },
  { key: "rank memory", title: "Memory of each rank", unit: "bytes", of: "rank", group: "CPU and memory", figure: "memory_used" },
  { key: "received", title: "Network received", unit: "bytes/s", of: "host", group: "Network and disk", figure: "network_received" },
  { key: "sent", title: "Network sent", unit: "bytes/s", of: "host", group: "Network and disk", figure: "network_sent" },
  { key: "read", title: "Disk read", unit: "bytes/s", of: "host", group: "Network and disk", figure: "disk_read" },
  { key: "written", title: "Disk written", unit: "bytes/s", of: "host", group: "Network and disk", figure: "disk_written" },
];

/** The unit of a gauge, or null when there is no such gauge. */
export function unitOf(key: string): Unit | null {
  return GAUGES.find((gauge) => gauge.key === key)?.unit ?? null;
}

/** A track's values of a gauge, NaN where unknown; null when it has none. */
export function valuesOf(track: Track, { figure, whole }: Gauge): number[] | null {
  const values = track.values[figure];
  if (values === undefined || whole === undefined) return values ?? null;
  const total = track.values[whole];
  return total === undefined ? null : values.map((value, i) => value / (total[i] || NaN));
}

export interface GaugeLine {
  key: string;
  label: string;
  x: number[];
  /** Null: a gap. */
  values: (number | null)[];
  mean: number;
  /** Whether it lies far from what the others have. */
  isOdd: boolean;
}

const MOST_LINES = 32;
const MOST_ODD = 3;
const FEWEST = 3;
const DEVIATIONS = 5;
/** A smaller difference is none: of the usual value, and of the whole where there is one. */
const LEAST_RATIO = 0.1;

export interface GaugeLines {
  lines: GaugeLine[];
  /** Those there are, drawn or not. */
  total: number;
}

/** Lines of a gauge at or below a path, those with any value only; of very many the most different ones and some others. */
export function gaugeLines(samples: Samples, gauge: Gauge, path: string, axis: "time" | "relative", origin: number): GaugeLines {
  const found: { track: Track; values: number[]; mean: number }[] = [];
  for (const track of samples.tracks.values()) {
    if (gauge.of === "host" ? track.rank !== null || track.path === "root" : track.rank === null) continue;
    if (!isWithin(track.path, path) && !(gauge.of === "host" && isWithin(path, track.path))) continue;
    const values = valuesOf(track, gauge);
    const average = values === null ? null : mean(values);
    if (values !== null && average !== null) found.push({ track, values, mean: average });
  }
  found.sort((a, b) => (a.track.rank ?? 0) - (b.track.rank ?? 0) || byName.compare(a.track.host, b.track.host));
  const usual = median(found.map((line) => line.mean)) ?? 0;
  const far = farOnes(found.map((line) => line.mean), usual, gauge.unit === "ratio" ? LEAST_RATIO : Math.abs(usual) * LEAST_RATIO);
  const shown = telling(found.map((line) => Math.abs(line.mean - usual)));
  const lines = shown.flatMap((i) => {
    const line = found[i];
    if (line === undefined) return [];
    const { track, values } = line;
    const label = track.rank === null ? track.host : `rank ${track.rank}`;
    return [{ key: track.path, label, mean: line.mean, isOdd: far.has(i), ...withGaps(track.time, values, axis === "time" ? 0 : origin) }];
  });
  return { lines, total: found.length };
}

const byName = new Intl.Collator("en", { numeric: true });

/** The few that are farthest out, if any is far out at all. */
function farOnes(means: number[], usual: number, least: number): Set<number> {
  if (means.length < FEWEST) return new Set();
  const away = means.map((value) => Math.abs(value - usual));
  const limit = Math.max(least, DEVIATIONS * (median(away) ?? 0));
  const far = [...away.keys()].filter((i) => (away[i] ?? 0) > limit);
  return new Set(far.sort((a, b) => (away[b] ?? 0) - (away[a] ?? 0)).slice(0, MOST_ODD));
}

/** Half of them those farthest from the usual, the others evenly taken; in their own order. */
function telling(away: number[]): number[] {
  const all = [...away.keys()];
  if (all.length <= MOST_LINES) return all;
  const chosen = new Set([...all].sort((a, b) => (away[b] ?? 0) - (away[a] ?? 0)).slice(0, MOST_LINES / 2));
  const rest = all.filter((i) => !chosen.has(i));
  for (let i = 0; i < MOST_LINES / 2; i++) chosen.add(rest[Math.floor((i * rest.length) / (MOST_LINES / 2))] ?? 0);
  return all.filter((i) => chosen.has(i));
}

/** So many times as long as between its neighbours no sample came: there was none. Shorter than this is no pause. */
const PAUSE_RATIO = 3;
const PAUSE_S = 10;

/** What is known, with a gap where samples stopped for a while; x in seconds since `origin`. */
function withGaps(time: number[], values: number[], origin: number): { x: number[]; values: (number | null)[] } {
  const at = [...time.keys()].filter((i) => !Number.isNaN(values[i]));
  const wait = (i: number) => (time[at[i + 1] ?? -1] ?? NaN) - (time[at[i] ?? -1] ?? NaN);
  const out: { x: number[]; values: (number | null)[] } = { x: [], values: [] };
  at.forEach((place, i) => {
    out.x.push((time[place] ?? 0) - origin);
    out.values.push(values[place] ?? null);
    const usual = Math.max(...[wait(i - 1), wait(i + 1)].filter((seconds) => !Number.isNaN(seconds)), PAUSE_S / PAUSE_RATIO);
    if (wait(i) <= usual * PAUSE_RATIO || Number.isNaN(wait(i))) return;
    out.x.push((time[place] ?? 0) - origin + wait(i) / 2);
    out.values.push(null);
  });
  return out;
}

/** Lines on few common moments, so that very many of them draw as quickly as few. */
export function snapped(lines: GaugeLine[], moments: number): GaugeLine[] {
  const ends = lines.flatMap(({ x }) => [x[0] ?? 0, x[x.length - 1] ?? 0]);
  const step = (Math.max(...ends) - Math.min(...ends)) / moments;
  if (!(step > 0)) return lines;
  return lines.map((line) => {
    const x: number[] = [];
    const values: (number | null)[] = [];
    line.x.forEach((at, i) => {
      const place = Math.round(at / step) * step;
      const value = line.values[i] ?? null;
      if (x[x.length - 1] !== place) {
        x.push(place);
        values.push(value);
      } else if (value !== null) values[values.length - 1] = value;
    });
    return { ...line, x, values };
  });
}
