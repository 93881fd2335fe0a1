// Times that tick on the page between two messages. Only this browser's own monotonic clock is used.

import type { Page } from "../state/page";
import type { RankEntry } from "../wire/types.gen";

/** Seconds since the run document came; 0 while the page does not know better or nothing moves any more. */
function sinceRun(page: Page): number {
  if (page.isOver.value || page.connection.value === "disconnected") return 0;
  return Math.max(0, page.now.value - page.model.value.runAt) / 1000;
}

export function elapsedSeconds(page: Page): number | null {
  const run = page.run.value;
  if (run === null) return null;
  return run.state === "waiting" ? run.elapsed_seconds : run.elapsed_seconds + sinceRun(page);
}

/** Null while there is no basis. */
export function etaSeconds(page: Page): number | null {
  const eta = page.run.value?.eta_seconds ?? null;
  return eta === null || page.isOver.value ? null : Math.max(0, eta - sinceRun(page));
}

/** Seconds since the run came to its step, as far as this page has seen; null when it has none or nothing moves any more. */
export function standingSeconds(page: Page): number | null {
  const { run, stepAt } = page.model.value;
  if (run?.state !== "running" || run.step === null || page.connection.value !== "live") return null;
  return Math.max(0, page.now.value - stepAt) / 1000;
}

/** Seconds since a rank's last sign of life; null when unknown or when it needs no more. */
export function ageSeconds(page: Page, rank: RankEntry): number | null {
  if (rank.age_seconds === null || rank.state === "finished" || rank.state === "failed" || page.isOver.value) return null;
  return rank.age_seconds + Math.max(0, page.now.value - page.model.value.ranksAt) / 1000;
}

/** Age of what the page shows, seconds. */
export function heardSeconds(page: Page): number {
  return Math.max(0, page.now.value - page.heardAt.value) / 1000;
}

const SAMPLED_S = 30;

/** Whether samples of hardware still come, as far as that is known: a run that is over and a lost link say so themselves. */
export function isSampled(page: Page): boolean {
  if (page.isOver.value || page.connection.value !== "live") return true;
  return page.now.value - page.sampledAt.value < SAMPLED_S * 1000;
}
