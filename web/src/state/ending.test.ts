import { describe, expect, it } from "vitest";
import { asEvents, asRanks, asRun } from "../wire/guards";
import { adviceOn, culpritOf, takenAlong } from "./ending";

const rank = (number: number, more: object) => ({ rank: number, path: `root/a/rank${number}`, state: "failed", host: "a", step: 9, ...more });
const RANKS = asRanks([rank(0, { exit_code: 1 }), rank(1, { signal: "SIGKILL" }), rank(2, { signal: "SIGTERM" }), rank(11, { state: "lost" })]);
const EVENTS = asEvents([
  { id: 1, time: 5, kind: "straggler", severity: "warn", text: "", path: "root/a/rank1", step: 3 },
  { id: 2, time: 7, kind: "rank failed", severity: "critical", text: "", path: "root/a/rank1", step: 8 },
]);
const run = (detail: string | null, state = "failed") => asRun({ id: "r", name: "r", state, state_detail: detail, ranks: {} });

describe("how a job ended", () => {
  it("names the rank, its moment and its last step", () => {
    expect(culpritOf(run("rank 1 on a was killed by SIGKILL; 1 more failed"), RANKS, EVENTS)).toEqual({ rank: RANKS[1], time: 7, step: 8 });
  });
  it("goes by the whole number, and takes the rank's own step where no event tells", () => {
    expect(culpritOf(run("rank 11 on a was lost"), RANKS, EVENTS)).toEqual({ rank: RANKS[3], time: null, step: 9 });
  });
  it("blames nobody while a run goes on, or when a rank is not to blame", () => {
    expect(culpritOf(run("rank 1 on a was killed by SIGKILL", "running"), RANKS, EVENTS)).toBeNull();
    expect(culpritOf(run("the launcher exited with code 2"), RANKS, EVENTS)).toBeNull();
    expect(culpritOf(null, RANKS, EVENTS)).toBeNull();
  });
  it("tells who was only taken along", () => {
    const culprit = culpritOf(run("rank 1 on a was killed by SIGKILL"), RANKS, EVENTS);
    expect(RANKS.map((one) => takenAlong(one, run(null, "failed"), culprit))).toEqual([null, null, "asked to end because rank 1 had failed", null]);
    expect(takenAlong(RANKS[2]!, run(null, "failed"), null)).toBeNull();
    expect(RANKS.map((one) => takenAlong(one, run(null, "terminated"), null) !== null)).toEqual([false, false, true, false]);
  });
  it("says what to look at for each way to die", () => {
    const advice = (more: object) => adviceOn({ rank: asRanks([rank(3, more)])[0]!, time: null, step: null });
    expect(advice({ signal: "SIGKILL" })).toContain("memory of a");
    expect(advice({ signal: "SIGSEGV" })).toContain("PYTHONFAULTHANDLER");
    expect(advice({ signal: "SIGUSR1" })).toContain("sent it SIGUSR1");
    expect(advice({ state: "lost" })).toContain("whether a is up");
    expect(advice({ exit_code: 1 })).toContain("look for [a:r3].");
    expect(advice({ exit_code: 1, host: null })).toContain("look for rank 3.");
  });
});
