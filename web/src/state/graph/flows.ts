// Tensors as they are seen at each level: between siblings, and in and out of the module that holds them.

import type { GraphEdge, TensorSpec } from "../../wire/types.gen";
import { ancestors, type Outline } from "./outline";

/** The ends of a flow that comes from outside of a module, or leaves it. */
export const IN = -1;
export const OUT = -2;

export interface Flow {
  source: number;
  target: number;
  /** Modules whose tensors take this way, each with as many as its busiest edge has: one that several inside use is one. */
  count: number;
  /** One of them, and its own ends. */
  tensor: TensorSpec | null;
  from: number;
  to: number;
}

/** Flows of each module's inside, each way once. */
export function flowsOf(outline: Outline, edges: GraphEdge[]): Map<number, Flow[]> {
  const levels = new Map<number, Map<string, Flow & { by: Map<number, number> }>>();
  const add = (level: number, source: number, target: number, edge: GraphEdge) => {
    if (source === target) return;
    const flows = levels.get(level) ?? new Map<string, Flow & { by: Map<number, number> }>();
    levels.set(level, flows);
    const key = `${source} ${target}`;
    const known = flows.get(key) ?? { source, target, count: 0, tensor: edge.tensor, from: edge.source, to: edge.target, by: new Map<number, number>() };
    flows.set(key, known);
    const before = known.by.get(edge.source) ?? 0;
    known.by.set(edge.source, Math.max(before, edge.count));
    known.count += Math.max(0, edge.count - before);
  };
  for (const edge of edges) trace(outline, edge, add);
  return new Map([...levels].map(([level, flows]) => [level, [...flows.values()].map(({ by: _, ...flow }) => flow)]));
}

/** An edge goes up from its source to where both ends lie in one module, across, and down to its target. */
function trace(outline: Outline, edge: GraphEdge, add: (level: number, source: number, target: number, edge: GraphEdge) => void): void {
  const up = [...ancestors(outline, edge.source), edge.source];
  const down = [...ancestors(outline, edge.target), edge.target];
  let shared = 0;
  while (shared < up.length && shared < down.length && up[shared] === down[shared]) shared++;
  const out = up[shared];
  const into = down[shared];
  const meeting = up[shared - 1] ?? 0;
  if (out !== undefined && into !== undefined) add(meeting, out, into, edge);
  else if (into !== undefined) add(meeting, IN, into, edge);
  else if (out !== undefined) add(meeting, out, OUT, edge);
  for (let i = shared; i + 1 < up.length; i++) add(up[i] ?? 0, up[i + 1] ?? 0, OUT, edge);
  for (let i = shared; i + 1 < down.length; i++) add(down[i] ?? 0, IN, down[i + 1] ?? 0, edge);
}
