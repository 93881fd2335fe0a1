// Rows of what steps took: the whole run as the server keeps it, and what this page has seen since.

import { plain } from "../lib/text";
import type { HeatAnswer, RankEntry } from "../wire/types.gen";
import type { HeatRow } from "./heat";
import type { RankHistory } from "./history";
import { isGone } from "./standings";

export const STEP_TIMES = ["own step", "data wait", "whole step"] as const;
export type StepTime = (typeof STEP_TIMES)[number];

const COLUMNS: Record<StepTime, "own" | "data" | "wall"> = { "own step": "own", "data wait": "data", "whole step": "wall" };

export function isStepTime(choice: string): choice is StepTime {
  return STEP_TIMES.some((name) => name === choice);
}

/** A row a rank, x in seconds since `origin`, one x for all; a value holds from the one before it. */
export function stepRows(answer: HeatAnswer | null, history: RankHistory, what: StepTime, ranks: RankEntry[], origin: number): HeatRow[] {
  const ends = (answer?.time ?? []).slice(0, wholeColumns(answer, history, what, origin)).map((time) => time - origin);
  const begins = ends.map((end, i) => (i === 0 ? Math.max(0, end - ((ends[1] ?? end) - end)) : (ends[i - 1] ?? end)));
  const last = ends[ends.length - 1] ?? -Infinity;
  const places = new Map((answer?.ranks ?? []).map((rank, i) => [rank, i]));
  const seen = history.since(last);
  const x = [...ends, ...seen.map(({ at }) => at)];
  const from = [...begins, ...seen.map(({ from: begin }) => begin)];
  const column = COLUMNS[what];
  return ranks.map((rank) => {
    const place = places.get(rank.rank);
    const whole = place === undefined ? undefined : answer?.[column][place];
    const values = new Float64Array(x.length).fill(NaN);
    for (let i = 0; i < ends.length; i++) values[i] = whole?.[i] ?? NaN;
    seen.forEach((moment, i) => (values[ends.length + i] = moment[column][moment.places.get(rank.rank) ?? -1] ?? NaN));
    return { rank: rank.rank, path: rank.path, host: rank.host === null ? null : plain(rank.host), isGone: isGone(rank), x, from, values };
  });
}

const PATCHY = 0.05;

/** Columns of the answer, without a last one that many ranks had not told yet, where this page has seen that stretch itself. */
function wholeColumns(answer: HeatAnswer | null, history: RankHistory, what: StepTime, origin: number): number {
  const count = answer?.time.length ?? 0;
  const begin = answer?.time[count - 2];
  if (answer === null || begin === undefined) return count;
  const untold = answer[COLUMNS[what]].filter((row) => row[count - 1] === null && row[count - 2] !== null).length;
  const first = history.since(begin - origin)[0];
  return untold > answer.ranks.length * PATCHY && first !== undefined && first.from <= begin - origin ? count - 1 : count;
}
