// How much of the hardware is used, from ranks and hosts. A figure nobody reported is null.

import type { RankEntry, ResourceRecord } from "../wire/types.gen";

export interface Load {
  gpu: number | null;
  vramUsed: number | null;
  vramTotal: number | null;
  cpu: number | null;
  memoryUsed: number | null;
  memoryTotal: number | null;
}

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

/** Means over ranks and hosts, sums of memory. */
export function loadOf(ranks: RankEntry[], hosts: ResourceRecord[]): Load {
  const gpus = ranks.map((rank) => rank.gpu);
  return {
    gpu: mean(gpus.map((gpu) => gpu?.util)),
    vramUsed: sum(gpus.map((gpu) => gpu?.memory_used)),
    vramTotal: sum(gpus.map((gpu) => gpu?.memory_total)),
    cpu: mean(hosts.map((host) => host.cpu)),
    memoryUsed: sum(hosts.map((host) => host.memory_used)),
    memoryTotal: sum(hosts.map((host) => host.memory_total)),
  };
}
