// Which ranks stand behind a metric's chart, and which are laid over it.

import { nearest } from "../lib/search";
import type { MetricEntry, RankEntry } from "../wire/types.gen";
import type { Entries } from "./columns";
import { isWithin } from "./view";

const MOST = 32;

export interface Spread {
  ranks: RankEntry[];
  /** Ranks below the path, shown or not. */
  total: number;
}

/** At most 32 ranks, evenly taken when there are more. */
export function spreadOf(ranks: RankEntry[]): Spread {
  const sorted = [...ranks].sort((a, b) => a.rank - b.rank);
  if (sorted.length <= MOST) return { ranks: sorted, total: sorted.length };
  const picked = Array.from({ length: MOST }, (_, i) => sorted[Math.floor((i * sorted.length) / MOST)]);
  return { ranks: picked.filter((rank) => rank !== undefined), total: sorted.length };
}

/** How many ranks at or below a path have told a metric; the rank itself where it is one alone and known. */
export interface Tellers {
  count: number;
  only: number | null;
  /** Ranks at or below the path that may tell more. */
  living: number;
}

/** @param ranks At or below the path. */
export function tellersOf({ paths, rank_count }: MetricEntry, ranks: RankEntry[], path: string): Tellers {
  const below = path === "root" ? paths : paths.filter((one) => isWithin(one, path));
  // Not all paths are listed where there are very many.
  const count = path === "root" ? rank_count : rank_count > paths.length ? Math.min(rank_count, ranks.length) : below.length;
  const one = count === 1 ? (ranks.find((rank) => rank.path === below[0]) ?? (ranks.length === 1 ? ranks[0] : undefined)) : undefined;
  return { count, only: one?.rank ?? null, living: ranks.filter((rank) => rank.state === "alive" || rank.state === "late").length };
}

/**
 * How many ranks have told a place.
 *
 * @param x Where; the newest when undefined, which some of those that live may not have told yet. A picture with ranks over it has more places than the cohort.
 */
export function countAt({ x: places, count }: Entries, x: number | undefined, living: number): number {
  if (x !== undefined) return count[nearest(places, x)] ?? 0;
  return Math.max(count[count.length - 1] ?? 0, Math.min(living, Math.max(0, ...count.slice(-3))));
}
