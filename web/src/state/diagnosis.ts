// What the diagnosis says at a path: who is behind, who was, and what the whole job waits for.

import type { Diagnosis, Verdict } from "../wire/types.gen";
import { isWithin } from "./view";

export interface Findings {
  /** Worst first. */
  active: Verdict[];
  /** Gone, latest first as the server has them. */
  over: Verdict[];
}

/** Verdicts on what lies at, below or above a path. */
export function findingsAt(diagnosis: Diagnosis, path: string): Findings {
  const here = diagnosis.verdicts.filter((verdict) => isWithin(verdict.path, path) || isWithin(path, verdict.path));
  return { active: here.filter((verdict) => verdict.active), over: here.filter((verdict) => !verdict.active) };
}

/** The worst active verdict on each rank. */
export function blamed(diagnosis: Diagnosis | null): Map<number, Verdict> {
  const worst = new Map<number, Verdict>();
  for (const verdict of diagnosis?.verdicts ?? []) {
    if (verdict.active && verdict.rank !== null && !worst.has(verdict.rank)) worst.set(verdict.rank, verdict);
  }
  return worst;
}

/** Two times on one scale, 0 to 1 each: what the blamed rank takes, and its peers. */
export function comparison(verdict: Verdict): { own: number; peers: number } | null {
  const { own_seconds: own, peer_seconds: peers } = verdict;
  if (own === null || peers === null || !(own > 0)) return null;
  const most = Math.max(own, peers);
  return { own: own / most, peers: Math.max(0, peers) / most };
}
