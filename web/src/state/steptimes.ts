// Rows of what steps took: the whole run as the server keeps it, and what this page has seen since.

import type { HeatAnswer, RankEntry } from "../wire/types.gen";
import type { HeatRow } from "./heat";
import type { RankHistory } from "./history";

export const STEP_TIMES = ["own step", "data wait", "whole step"] as const;
export type StepTime = (typeof STEP_TIMES)[number];

const COLUMNS: Record<StepTime, "own" | "data" | "wall"> = { "own step": "own", "data wait": "data", "whole step": "wall" };

export function isStepTime(choice: string): choice is StepTime {
  return STEP_TIMES.some((name) => name === choice);
}

/** A row a rank, x in seconds since `origin`; a value holds from the one before it. */
export function stepRows(answer: HeatAnswer | null, history: RankHistory, what: StepTime, ranks: RankEntry[], origin: number): HeatRow[] {
  const ends = (answer?.time ?? []).map((time) => time - origin);
  const begins = ends.map((end, i) => (i === 0 ? Math.max(0, end - ((ends[1] ?? end) - end)) : (ends[i - 1] ?? end)));
  const last = ends[ends.length - 1] ?? -Infinity;
  const places = new Map((answer?.ranks ?? []).map((rank, i) => [rank, i]));
  const seen = history.since(last);
  return ranks.map((rank) => {
    const place = places.get(rank.rank);
    const whole = place === undefined ? undefined : answer?.[COLUMNS[what]][place];
    return {
      rank: rank.rank,
      path: rank.path,
      x: [...ends, ...seen.map(({ at }) => at)],
      from: [...begins, ...seen.map(({ from }) => from)],
      values: [...ends.map((_, i) => whole?.[i] ?? null), ...seen.map(({ ranks: then }) => then.get(rank.rank)?.[COLUMNS[what]] ?? null)],
    };
  });
}
