// Very many hosts as rows of one table, and which of them are unlike the others.

import type { RankEntry, ResourceRecord } from "../wire/types.gen";
import { mean, median, sum } from "./load";

export type HostColumn = "cpu" | "memory" | "gpu" | "idlest" | "vram" | "hottest" | "disk" | "received" | "sent";

export type HostRow = { host: string; path: string; ranks: number } & Record<HostColumn, number | null>;

const JUDGED: readonly HostColumn[] = ["cpu", "memory", "idlest", "vram", "hottest", "disk"];
const FEWEST = 8;
const DEVIATIONS = 6;
const LEAST: Partial<Record<HostColumn, number>> = { hottest: 12 };
/** A smaller part of the whole is no difference. */
const LEAST_RATIO = 0.15;

function part(used: number | null, total: number | null): number | null {
  return used === null || total === null || total === 0 ? null : used / total;
}

export function hostRows(hosts: ResourceRecord[], ranks: RankEntry[]): HostRow[] {
  const byHost = new Map<string, RankEntry[]>();
  for (const rank of ranks) {
    const own = byHost.get(rank.host ?? "");
    if (own === undefined) byHost.set(rank.host ?? "", [rank]);
    else own.push(rank);
  }
  return hosts.map((host): HostRow => {
    const own = byHost.get(host.host) ?? [];
    const gpus = own.flatMap((rank) => (rank.gpu === null ? [] : [rank.gpu]));
    const warm = gpus.flatMap((gpu) => (gpu.temperature === null ? [] : [gpu.temperature]));
    const busy = gpus.flatMap((gpu) => (gpu.util === null ? [] : [gpu.util]));
    return {
      host: host.host,
      path: host.path,
      ranks: own.length,
      cpu: host.cpu,
      memory: part(host.memory_used, host.memory_total),
      gpu: mean(gpus.map((gpu) => gpu.util)),
      idlest: busy.length === 0 ? null : Math.min(...busy),
      vram: part(sum(gpus.map((gpu) => gpu.memory_used)), sum(gpus.map((gpu) => gpu.memory_total))),
      hottest: warm.length === 0 ? null : Math.max(...warm),
      disk: part(host.disk_used, host.disk_total),
      received: host.network_received,
      sent: host.network_sent,
    };
  });
}

const byName = new Intl.Collator("en", { numeric: true });

/** By a column, what is unknown last; without one the hosts that are unlike the others come first, then by name. */
export function sortedHosts(rows: HostRow[], odd: ReadonlyMap<string, unknown>, sort: { key: HostColumn; descending: boolean } | null): HostRow[] {
  const inOrder = (a: HostRow, b: HostRow) => byName.compare(a.host, b.host);
  if (sort === null) return [...rows].sort((a, b) => Number(odd.has(b.host)) - Number(odd.has(a.host)) || inOrder(a, b));
  const sign = sort.descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [a[sort.key], b[sort.key]];
    if (left === null || right === null) return Number(left === null) - Number(right === null) || inOrder(a, b);
    return sign * (left - right) || inOrder(a, b);
  });
}

/** Hosts whose figure lies far outside of what the others have, and in which columns. */
export function oddHosts(rows: HostRow[]): Map<string, Set<HostColumn>> {
  const odd = new Map<string, Set<HostColumn>>();
  for (const key of JUDGED) {
    const values = rows.map((row) => row[key]);
    const usual = median(values);
    if (usual === null || values.filter((value) => value !== null).length < FEWEST) continue;
    const deviation = median(values.map((value) => (value === null ? null : Math.abs(value - usual)))) ?? 0;
    const limit = Math.max(DEVIATIONS * deviation, LEAST[key] ?? LEAST_RATIO);
    for (const row of rows) {
      const value = row[key];
      if (value !== null && Math.abs(value - usual) > limit) odd.set(row.host, (odd.get(row.host) ?? new Set()).add(key));
    }
  }
  return odd;
}
