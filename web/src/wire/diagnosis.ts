// The edge for what steps cost: the diagnosis inside the run document, and the heat map.

import { fields, filled, list, sameLengths, ShapeError } from "./shape";
import type { Diagnosis, HeatAnswer, SharePart, Verdict } from "./types.gen";

function asVerdict(value: unknown): Verdict {
  return filled<Verdict>(value, "verdict", { id: "number", kind: "string", text: "string", path: "string" }, {
    rank: null, phase: null, module: null, since_step: null, since_time: null, until_step: null, active: true,
    pattern: "chronic", own_seconds: null, peer_seconds: null, gain_seconds: null, steps: 0,
  });
}

function asPart(value: unknown): SharePart {
  return filled<SharePart>(value, "balance", { rank: "number", share: "number", suggested: "number" }, {});
}

export function asDiagnosis(value: unknown): Diagnosis {
  const found = filled<Diagnosis>(value, "diagnosis", {}, {
    steps: 0, step_seconds: null, bound: null, bound_text: "", phases: {}, gain_ratio: null, verdicts: [], balance: [],
  });
  fields(found.phases, "diagnosis.phases");
  return {
    ...found,
    verdicts: list(found.verdicts, "diagnosis.verdicts").map(asVerdict),
    balance: list(found.balance, "diagnosis.balance").map(asPart),
  };
}

/** What each rank's steps took: a row of cells for each rank, all as long as the columns. */
export function asHeat(value: unknown): HeatAnswer {
  const heat = filled<HeatAnswer>(
    value,
    "heat",
    { ranks: "list", step: "list", time: "list", own: "list", data: "list", wall: "list" },
    {},
  );
  sameLengths({ ...heat }, "heat", ["step", "time"]);
  for (const cells of [heat.own, heat.data, heat.wall]) {
    const isEven = cells.length === heat.ranks.length && cells.every((row) => Array.isArray(row) && row.length === heat.time.length);
    if (!isEven) throw new ShapeError("heat: rows that do not fit ranks and columns");
  }
  return heat;
}
