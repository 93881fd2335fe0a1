// Which ranks are laid over a metric's chart.

import type { RankEntry } from "../wire/types.gen";

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
