// How a job that failed came to its end: who was the first, and what to look at.

import type { EventRecord, RankEntry, RunDocument } from "../wire/types.gen";

/** The rank that ended the job. */
export interface Culprit {
  rank: RankEntry;
  /** UTC seconds, or null when no event tells. */
  time: number | null;
  step: number | null;
}

const CRASHES = ["SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"];

/** The rank that the run's own words name; null while it goes on, and where no rank is to blame. */
export function culpritOf(run: RunDocument | null, ranks: RankEntry[], events: EventRecord[]): Culprit | null {
  const named = run?.state === "failed" ? /^rank (\d+)\b/.exec(run.state_detail ?? "")?.[1] : undefined;
  const rank = ranks.find((one) => named !== undefined && one.rank === Number(named));
  if (rank === undefined) return null;
  const event = events.find((one) => one.path === rank.path && (one.kind === "rank failed" || one.kind === "rank lost"));
  return { rank, time: event?.time ?? null, step: event?.step ?? rank.step };
}

const ASKED = ["SIGTERM", "SIGINT", "SIGHUP"];

/** Why a rank was asked to end though it had done nothing wrong; null when it was not. */
export function takenAlong(rank: RankEntry, run: RunDocument | null, culprit: Culprit | null): string | null {
  if (rank.state !== "failed" || rank.signal === null || !ASKED.includes(rank.signal)) return null;
  if (run?.state === "terminated") return "asked to end, as the whole job was";
  return culprit === null || rank.rank === culprit.rank.rank ? null : `asked to end because rank ${culprit.rank.rank} had failed`;
}

/** Why a job that was asked to end may have been; empty when nobody can tell. */
export function adviceOnEnd(detail: string | null): string {
  return detail?.includes("SIGTERM") === true ? "A scheduler does so at the time limit and before preemption, and so does whoever cancels the job." : "";
}

/** What to look at first, in a sentence. */
export function adviceOn({ rank }: Culprit): string {
  const where = rank.host ?? "its host";
  if (rank.signal === "SIGKILL") return `A script cannot catch SIGKILL: most often the memory of ${where} or of its container was full (dmesg tells), or the scheduler's limit was reached.`;
  if (rank.signal !== null && CRASHES.includes(rank.signal)) return "Native code crashed; with PYTHONFAULTHANDLER=1 in the environment it prints where.";
  if (rank.signal !== null) return `Somebody or something sent it ${rank.signal}.`;
  if (rank.state === "lost") return `It went silent: look whether ${where} is up and its network works.`;
  const line = rank.host === null ? `rank ${rank.rank}` : `[${rank.host}:r${rank.rank}]`;
  return `Its last words, the traceback too, stand in the job's output: look for ${line}.`;
}
