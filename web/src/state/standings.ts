// Who is slow: ranks in an order, the slowest named, phases told apart.

import type { RankEntry } from "../wire/types.gen";
import { median } from "./load";

export const COLUMNS = ["rank", "step", "share", "throughput", "age", "state", "generation", "epoch", "own", "gpu", "memory", "cpu", "offset"] as const;
export type Column = (typeof COLUMNS)[number];

export interface Order {
  column: Column;
  descending: boolean;
}

const SLOW_RATIO = 1.1;
/** Of a whole step: a rank that is slow in what hardly matters is not named. */
const SLOW_SHARE = 0.03;
const STATES = ["failed", "lost", "late", "alive", "finished"];

/** Seconds of its own that a rank spends on a step: without waiting for peers when that is known. */
export function ownStep(rank: RankEntry): number | null {
  return rank.own_step_seconds ?? rank.step_seconds;
}

/** Verdicts that say nothing of how fast a rank is. */
const NOT_OF_SPEED = ["memory growth"];

/**
 * The rank that is behind: by the diagnosis where that names one, the slowest of them; else the slowest of all when it is so by more
 * than a tenth of the median and a noticeable part of a step. Null when all are alike.
 */
export function slowestOf(ranks: RankEntry[]): RankEntry | null {
  const running = ranks.filter((rank) => ownStep(rank) !== null);
  const usual = median(running.map(ownStep));
  if (usual === null || running.length < 2) return null;
  const blamed = running.filter((rank) => rank.verdict !== null && !NOT_OF_SPEED.includes(rank.verdict));
  const slowest = (blamed.length > 0 ? blamed : running).reduce((worst, rank) => ((ownStep(rank) ?? 0) > (ownStep(worst) ?? 0) ? rank : worst));
  if (blamed.length > 0) return slowest;
  const own = ownStep(slowest) ?? 0;
  const step = slowest.step_seconds ?? own;
  return own > usual * SLOW_RATIO && own - usual > step * SLOW_SHARE ? slowest : null;
}

/** Whether its process is no more, or nothing is known of it any more. */
export function isGone(rank: RankEntry): boolean {
  return rank.state === "failed" || rank.state === "lost";
}

/** Ranks that all of the words fit: a number is a rank's own, anything else a part of its name, host, state or verdict. */
export function foundRanks(ranks: RankEntry[], words: string): RankEntry[] {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (wanted.length === 0) return ranks;
  return ranks.filter((rank) => {
    const texts = [`rank${rank.rank}`, rank.host, rank.state, rank.verdict].map((text) => (text ?? "").toLowerCase());
    return wanted.every((word) => (/^\d+$/.test(word) ? rank.rank === Number(word) : texts.some((text) => text.includes(word))));
  });
}

const OTHER_SHARE = 0.03;

/** Whether another share of the batch is different enough to be worth a word. */
export function isOtherShare(share: number | null, suggested: number): boolean {
  return share === null || Math.abs(suggested - share) > OTHER_SHARE * share;
}

/** What a column sorts by; null: unknown. */
export function keyOf(rank: RankEntry, column: Column): number | null {
  switch (column) {
    case "rank":
      return rank.rank;
    case "own":
      return ownStep(rank);
    case "step":
      return rank.step;
    case "epoch":
      return rank.epoch;
    case "share":
      return rank.batch_share;
    case "throughput":
      return rank.throughput;
    case "age":
      return rank.age_seconds;
    case "state":
      return STATES.indexOf(rank.state);
    case "generation":
      return rank.generation;
    case "gpu":
      return rank.gpu?.util ?? null;
    case "memory":
      return rank.gpu?.memory_used ?? rank.memory;
    case "cpu":
      return rank.cpu;
    case "offset":
      return rank.clock_offset_seconds === null ? null : Math.abs(rank.clock_offset_seconds);
  }
}

/** Sorted by a column; what is unknown comes last either way, equals by rank. */
export function ordered(ranks: RankEntry[], { column, descending }: Order): RankEntry[] {
  const sign = descending ? -1 : 1;
  return [...ranks].sort((a, b) => {
    const left = keyOf(a, column);
    const right = keyOf(b, column);
    if (left === null || right === null) return left === right ? a.rank - b.rank : left === null ? 1 : -1;
    return left === right ? a.rank - b.rank : sign * (left - right);
  });
}
