// Resource samples over time: for each gauge one line a host or a rank.

import type { ResourceRecord } from "../wire/types.gen";
import { isOfHost, mean, median } from "./load";
import { isWithin } from "./view";

export type Unit = "ratio" | "bytes" | "bytes/s" | "°C" | "W";

export interface Gauge {
  key: string;
  title: string;
  unit: Unit;
  of: "host" | "rank";
  read(record: ResourceRecord): number | null;
}

function part(used: number | null, total: number | null): number | null {
  return used === null || total === null || total === 0 ? null : used / total;
}

export const GAUGES: readonly Gauge[] = [
  { key: "gpu", title: "GPU utilisation", unit: "ratio", of: "rank", read: (record) => record.gpu_util },
  { key: "vram", title: "GPU memory", unit: "bytes", of: "rank", read: (record) => record.vram_used },
  { key: "cpu", title: "CPU", unit: "ratio", of: "host", read: (record) => record.cpu },
  { key: "memory", title: "Memory", unit: "ratio", of: "host", read: (record) => part(record.memory_used, record.memory_total) },
  { key: "rank cpu", title: "CPU of each rank", unit: "ratio", of: "rank", read: (record) => record.cpu },
  { key: "rank memory", title: "Memory of each rank", unit: "bytes", of: "rank", read: (record) => record.memory_used },
  { key: "received", title: "Network received", unit: "bytes/s", of: "host", read: (record) => record.network_received },
  { key: "sent", title: "Network sent", unit: "bytes/s", of: "host", read: (record) => record.network_sent },
  { key: "read", title: "Disk read", unit: "bytes/s", of: "host", read: (record) => record.disk_read },
  { key: "written", title: "Disk written", unit: "bytes/s", of: "host", read: (record) => record.disk_written },
  { key: "temperature", title: "GPU temperature", unit: "°C", of: "rank", read: (record) => record.temperature },
  { key: "power", title: "GPU power", unit: "W", of: "rank", read: (record) => record.power },
];

/** The unit of a gauge, or null when there is no such gauge. */
export function unitOf(key: string): Unit | null {
  return GAUGES.find((gauge) => gauge.key === key)?.unit ?? null;
}

export interface GaugeLine {
  key: string;
  label: string;
  x: number[];
  values: (number | null)[];
}

const MOST_LINES = 32;

export interface GaugeLines {
  lines: GaugeLine[];
  /** Those there are, drawn or not. */
  total: number;
}

/** Lines of a gauge at or below a path, those with any value only; of very many the most different ones and some others. */
export function gaugeLines(records: ResourceRecord[], gauge: Gauge, path: string, axis: "time" | "relative", origin: number): GaugeLines {
  const lines = new Map<string, GaugeLine>();
  for (const record of records) {
    if (gauge.of === "host" ? !isOfHost(record) : record.rank === null) continue;
    if (!(isWithin(record.path, path) || isWithin(path, record.path))) continue;
    if (gauge.of === "rank" && !isWithin(record.path, path)) continue;
    const value = gauge.read(record);
    if (value === null) continue;
    const key = record.rank === null ? record.host : `rank${record.rank}`;
    let line = lines.get(key);
    if (line === undefined) {
      line = { key, label: record.rank === null ? record.host : `rank ${record.rank}`, x: [], values: [] };
      lines.set(key, line);
    }
    const x = axis === "time" ? record.time : record.time - origin;
    if (x === line.x[line.x.length - 1]) continue;
    line.x.push(x);
    line.values.push(value);
  }
  return { lines: telling([...lines.values()]), total: lines.size };
}

/** Half of them those farthest from the usual, the others evenly taken; in their own order. */
function telling(lines: GaugeLine[]): GaugeLine[] {
  if (lines.length <= MOST_LINES) return lines;
  const means = lines.map((line) => mean(line.values) ?? 0);
  const usual = median(means) ?? 0;
  const byDistance = [...lines.keys()].sort((a, b) => Math.abs((means[b] ?? 0) - usual) - Math.abs((means[a] ?? 0) - usual));
  const far = new Set(byDistance.slice(0, MOST_LINES / 2));
  const rest = [...lines.keys()].filter((i) => !far.has(i));
  for (let i = 0; i < MOST_LINES / 2; i++) far.add(rest[Math.floor((i * rest.length) / (MOST_LINES / 2))] ?? 0);
  return lines.filter((_, i) => far.has(i));
}
