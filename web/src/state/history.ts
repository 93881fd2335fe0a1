// What the stream says of each rank right now, kept while the page is open: it goes on from where the server's heat map ends.

import type { RankEntry } from "../wire/types.gen";
import { isGone, ownStep } from "./standings";

const KEPT = 600;
const EVERY_MS = 1000;
/** A value holds at most so long, seconds: what came while nobody listened is not made up. */
const HOLDS_S = 5;

export interface Moment {
  /** Seconds since the run's start. */
  at: number;
  /** Since when it holds, seconds since the run's start. */
  from: number;
  /** Where each rank stands in the columns; moments of the same ranks share it. */
  places: ReadonlyMap<number, number>;
  /** NaN where unknown, or the rank had gone. */
  own: Float32Array;
  data: Float32Array;
  wall: Float32Array;
}

export class RankHistory {
  private moments: Moment[] = [];
  private lastMs = -Infinity;
  private places: ReadonlyMap<number, number> = new Map();

  /** Takes at most one moment a second; older ones are thinned when there are many. */
  take(ranks: RankEntry[], at: number, nowMs: number): void {
    if (nowMs - this.lastMs < EVERY_MS) return;
    this.lastMs = nowMs;
    if (ranks.length !== this.places.size || ranks.some((rank, i) => this.places.get(rank.rank) !== i)) this.places = new Map(ranks.map((rank, i) => [rank.rank, i]));
    const before = this.moments[this.moments.length - 1]?.at ?? at - 1;
    const column = (read: (rank: RankEntry) => number | null | undefined) => Float32Array.from(ranks, (rank) => (isGone(rank) ? NaN : (read(rank) ?? NaN)));
    this.moments.push({
      at,
      from: Math.max(before, at - HOLDS_S),
      places: this.places,
      own: column(ownStep),
      data: column((rank) => rank.phases["data"]),
      wall: column((rank) => rank.step_seconds),
    });
    if (this.moments.length > KEPT) this.moments = this.moments.filter((_, i) => i % 2 === 0 || i > KEPT / 2).map(closed);
  }

  /** Moments later than `x`, their spans cut at it. */
  since(x: number): Moment[] {
    return this.moments.filter(({ at }) => at > x).map((moment) => (moment.from < x ? { ...moment, from: x } : moment));
  }
}

/** After a neighbour went, a value holds from the one before it, within what it may hold. */
function closed(moment: Moment, i: number, all: Moment[]): Moment {
  return { ...moment, from: Math.max(all[i - 1]?.at ?? moment.from, moment.at - HOLDS_S) };
}
