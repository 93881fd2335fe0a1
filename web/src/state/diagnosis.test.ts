import { expect, it } from "vitest";
import type { Diagnosis, Verdict } from "../wire/types.gen";
import { blamed, comparison, findingsAt } from "./diagnosis";

const verdict = (id: number, rank: number, more: Partial<Verdict> = {}): Verdict => ({
  id, kind: "straggler", text: "", claim: "", path: `root/h/rank${rank}`, rank, phase: "data", module: null, since_step: 1, since_time: 1,
  until_step: null, active: true, pattern: "chronic", own_seconds: 0.2, peer_seconds: 0.05, gain_seconds: 0.15, steps: 20, ...more,
});
const diagnosis = (verdicts: Verdict[]): Diagnosis => ({
  steps: 20, step_seconds: 1, bound: null, bound_text: "", phases: {}, gain_ratio: null, verdicts, balance: [],
});

it("verdicts are told at their path, above and below it", () => {
  const all = diagnosis([verdict(1, 1), verdict(2, 2, { active: false }), verdict(3, 3, { path: "root", rank: null })]);
  expect(findingsAt(all, "root")).toMatchObject({ active: [{ id: 1 }, { id: 3 }], over: [{ id: 2 }] });
  expect(findingsAt(all, "root/h/rank1").active.map(({ id }) => id)).toEqual([1, 3]);
});

it("a rank is marked with the worst that holds", () => {
  const marks = blamed(diagnosis([verdict(1, 1), verdict(2, 1, { kind: "memory growth" }), verdict(3, 2, { active: false })]));
  expect([...marks].map(([rank, { id }]) => [rank, id])).toEqual([[1, 1]]);
  expect(blamed(null).size).toBe(0);
});

it("times are compared on one scale, and not at all when one is unknown", () => {
  expect(comparison(verdict(1, 1))).toEqual({ own: 1, peers: 0.25 });
  expect(comparison(verdict(1, 1, { peer_seconds: null }))).toBeNull();
});
