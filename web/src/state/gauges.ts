// Resource samples over time: for each gauge one line a host or a rank.

import type { ResourceRecord } from "../wire/types.gen";
import { isOfHost } from "./load";
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

/** Lines of a gauge at or below a path, those with any value only. */
export function gaugeLines(records: ResourceRecord[], gauge: Gauge, path: string, axis: "time" | "relative", origin: number): GaugeLine[] {
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
      if (lines.size >= MOST_LINES) continue;
      line = { key, label: record.rank === null ? record.host : `rank ${record.rank}`, x: [], values: [] };
      lines.set(key, line);
    }
    const x = axis === "time" ? record.time : record.time - origin;
    if (x === line.x[line.x.length - 1]) continue;
    line.x.push(x);
    line.values.push(value);
  }
  return [...lines.values()];
}
