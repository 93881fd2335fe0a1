// How much of the hardware is used, from ranks and hosts. A figure nobody reported is null.

import type { RankEntry, ResourceRecord } from "../wire/types.gen";
import { isWithin } from "./view";

export interface Load {
  gpu: number | null;
  vramUsed: number | null;
  vramTotal: number | null;
  cpu: number | null;
  memoryUsed: number | null;
  memoryTotal: number | null;
  /** When the last sample was taken, UTC seconds, where the figures are no more those of now; null: they are. */
  since: number | null;
}

const UNKNOWN: Load = { gpu: null, vramUsed: null, vramTotal: null, cpu: null, memoryUsed: null, memoryTotal: null, since: null };

type Maybe = number | null | undefined;

function known(values: Maybe[]): number[] {
  return values.filter((value): value is number => value !== null && value !== undefined && Number.isFinite(value));
}

export function sum(values: Maybe[]): number | null {
  const numbers = known(values);
  return numbers.length === 0 ? null : numbers.reduce((total, value) => total + value, 0);
}

export function mean(values: Maybe[]): number | null {
  const numbers = known(values);
  return numbers.length === 0 ? null : numbers.reduce((total, value) => total + value, 0) / numbers.length;
}

export function median(values: Maybe[]): number | null {
  const numbers = known(values).sort((a, b) => a - b);
  return numbers[Math.floor((numbers.length - 1) / 2)] ?? null;
}

/** Whether a record is one host's own: not a rank's, and not the whole job's, which stands under the root. */
export function isOfHost(record: ResourceRecord): boolean {
  return record.rank === null && record.path !== "root";
}

/** The latest sample of each host itself. */
export function latestOfHosts(records: ResourceRecord[]): Map<string, ResourceRecord> {
  const latest = new Map<string, ResourceRecord>();
  for (const record of records) if (isOfHost(record)) latest.set(record.host, record);
  return latest;
}

/** Means over ranks and hosts at a path, sums of memory; what is gone has no part in it while anything is left. */
export function loadOf(ranks: RankEntry[], records: ResourceRecord[], path: string): Load {
  const here = ranks.filter((rank) => rank.state !== "lost" && rank.state !== "failed");
  const last = records.findLast((record) => record.path === path && (record.gpu_util ?? record.vram_used) !== null);
  const living = here.some((rank) => rank.gpu !== null);
  const gpus = (living ? here : ranks).flatMap((rank) => rank.gpu ?? []);
  if (gpus.length > 0) {
    return { ...UNKNOWN, gpu: mean(gpus.map((gpu) => gpu.util)), vramUsed: sum(gpus.map((gpu) => gpu.memory_used)), vramTotal: sum(gpus.map((gpu) => gpu.memory_total)), since: living ? null : (last?.time ?? null) };
  }
  if (last !== undefined) return { ...UNKNOWN, gpu: last.gpu_util, vramUsed: last.vram_used, vramTotal: last.vram_total, since: last.time };
  const gone = new Set(ranks.map((rank) => rank.host));
  for (const rank of here) gone.delete(rank.host);
  const known = [...latestOfHosts(records).values()].filter((host) => isWithin(path, host.path) || isWithin(host.path, path));
  const up = known.filter((host) => !gone.has(host.host));
  const hosts = up.length > 0 ? up : known;
  return {
    ...UNKNOWN,
    cpu: mean(hosts.map((host) => host.cpu)),
    memoryUsed: sum(hosts.map((host) => host.memory_used)),
    memoryTotal: sum(hosts.map((host) => host.memory_total)),
    since: up.length > 0 || known.length === 0 ? null : Math.max(...known.map((host) => host.time)),
  };
}
