// What the stream says of each rank right now, kept while the page is open: step times have no series of their own.

import type { RankEntry } from "../wire/types.gen";
import { ownStep } from "./standings";
import type { HeatRow } from "./heat";

const KEPT = 600;
const EVERY_MS = 1000;

export type Watched = "own step" | "data wait";

interface Moment {
  /** Seconds since the run's start. */
  at: number;
  ranks: Map<number, { own: number | null; data: number | null }>;
}

export class RankHistory {
  private moments: Moment[] = [];
  private lastMs = -Infinity;

  /** Takes at most one moment a second; older ones are thinned when there are many. */
  take(ranks: RankEntry[], at: number, nowMs: number): void {
    if (nowMs - this.lastMs < EVERY_MS) return;
    this.lastMs = nowMs;
    this.moments.push({ at, ranks: new Map(ranks.map((rank) => [rank.rank, { own: ownStep(rank), data: rank.phases["data"] ?? null }])) });
    if (this.moments.length > KEPT) this.moments = this.moments.filter((_, i) => i % 2 === 0 || i > KEPT / 2);
  }

  rows(ranks: RankEntry[], what: Watched): HeatRow[] {
    return ranks.map((rank) => ({
      rank: rank.rank,
      path: rank.path,
      x: this.moments.map((moment) => moment.at),
      values: this.moments.map((moment) => {
        const then = moment.ranks.get(rank.rank);
        return (what === "own step" ? then?.own : then?.data) ?? null;
      }),
    }));
  }
}
