// What a module costs, by what one colours: its figure, its share of the whole, its place on the scale.

import * as format from "../../lib/format";
import type { GraphDocument, GraphNode } from "../../wire/types.gen";
import { TINTS, type Tint } from "../view";
import type { Outline } from "./outline";

/** Null: not known. */
export function valueOf(node: GraphNode, tint: Tint): number | null {
  if (tint === "parameters") return node.parameters;
  if (tint === "memory") return node.memory;
  if (node.forward_seconds === null && node.backward_seconds === null) return null;
  return (node.forward_seconds ?? 0) + (node.backward_seconds ?? 0);
}

export function figure(value: number | null, tint: Tint): string {
  if (tint === "time") return format.fine(value);
  return tint === "parameters" ? format.compact(value) : format.bytes(value);
}

export interface Scale {
  tint: Tint;
  /** The largest among what is drawn: the end of the colour scale. Null: none is known. */
  most: number | null;
  /** Of the whole model, what shares are shares of. */
  whole: number | null;
}

/** @param drawn Modules that have a box with a colour: frames have none. */
export function scaleOf({ nodes }: GraphDocument, drawn: readonly number[], tint: Tint): Scale {
  const values = drawn.map((id) => nodes[id]).map((node) => (node === undefined ? null : valueOf(node, tint)));
  const known = values.filter((value): value is number => value !== null);
  const most = known.length === 0 ? null : Math.max(...known);
  const root = nodes[0] === undefined ? null : valueOf(nodes[0], tint);
  const sum = nodes.filter((node) => node.parent === 0).reduce((total, node) => total + (valueOf(node, tint) ?? 0), 0);
  return { tint, most, whole: root ?? (sum > 0 ? sum : null) };
}

/** 0 to 1 on the colour scale; null when there is nothing to say. */
export function strength(value: number | null, { most }: Scale): number | null {
  return value === null || most === null || most <= 0 ? null : Math.min(1, Math.max(0, value / most));
}

/** 0 to 1 of the whole model. */
export function shareOf(value: number | null, { whole }: Scale): number | null {
  return value === null || whole === null || whole <= 0 ? null : Math.min(1, Math.max(0, value / whole));
}

/** Modules without any inside, those with the most first. */
export function costliest(graph: GraphDocument, { children }: Outline, tint: Tint, most: number): number[] {
  return graph.nodes
    .map((node) => ({ id: node.id, value: valueOf(node, tint) ?? 0 }))
    .filter(({ id, value }) => value > 0 && id !== 0 && (children[id] ?? []).length === 0)
    .sort((a, b) => b.value - a.value || a.id - b.id)
    .slice(0, most)
    .map(({ id }) => id);
}

/** What a graph can be coloured by. */
export function knownTints({ nodes }: GraphDocument): Tint[] {
  return TINTS.filter((tint) => nodes.some((node) => (valueOf(node, tint) ?? 0) > 0));
}

/** `8 × 3 × 224 × 224 float32`. */
export function tensorText({ shape, dtype }: { shape: readonly number[]; dtype: string }): string {
  return `${shape.length === 0 ? "scalar" : shape.join(" × ")} ${dtype}`;
}
