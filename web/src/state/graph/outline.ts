// The model's modules as a tree in execution order: what lies in what, and what is found by a search.

import { filterOf } from "../../lib/text";
import type { GraphDocument, GraphNode } from "../../wire/types.gen";

export interface Outline {
  nodes: GraphNode[];
  /** Children of each module, in execution order. */
  children: number[][];
  /** 0 for the root. */
  depth: number[];
  /** Modules below each, those that were left out included. */
  below: number[];
}

/** Modules that never ran themselves stand where the first of theirs ran; what did not run at all comes last. */
export function outlineOf({ nodes }: GraphDocument): Outline {
  const first = nodes.map((node) => node.order ?? Infinity);
  const below = nodes.map((node) => node.hidden);
  const depth = nodes.map(() => 0);
  const children: number[][] = nodes.map(() => []);
  for (let id = nodes.length - 1; id > 0; id--) {
    const parent = nodes[id]?.parent ?? 0;
    first[parent] = Math.min(first[parent] ?? Infinity, first[id] ?? Infinity);
    below[parent] = (below[parent] ?? 0) + (below[id] ?? 0) + 1;
  }
  for (let id = 1; id < nodes.length; id++) {
    const parent = nodes[id]?.parent ?? 0;
    depth[id] = (depth[parent] ?? 0) + 1;
    children[parent]?.push(id);
  }
  for (const list of children) list.sort((a, b) => order(first[a], first[b]) || a - b);
  return { nodes, children, depth, below };
}

function order(a = Infinity, b = Infinity): number {
  return a === b ? 0 : a - b;
}

/** The last part of a module's name; the root goes by its class. */
export function shortName(node: GraphNode): string {
  if (node.name === "") return node.type;
  return node.name.slice(node.name.lastIndexOf(".") + 1);
}

/** From the root's child down to the module's parent; the root itself is always open. */
export function ancestors(outline: Outline, id: number): number[] {
  const path: number[] = [];
  for (let at = outline.nodes[id]?.parent ?? null; at !== null; at = outline.nodes[at]?.parent ?? null) path.unshift(at);
  return path;
}

/** Modules whose name or class has the text, in execution order; none without a text. */
export function found(outline: Outline, query: string): number[] {
  if (query.trim() === "") return [];
  const filter = filterOf(query);
  return inOrder(outline).filter((id) => filter.matches(outline.nodes[id]?.name ?? "") || filter.matches(outline.nodes[id]?.type ?? ""));
}

/** All modules, each before those in it. */
export function inOrder({ children }: Outline): number[] {
  const list: number[] = [];
  const stack = [0];
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    list.push(id);
    stack.push(...[...(children[id] ?? [])].reverse());
  }
  return list;
}
