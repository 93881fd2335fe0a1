// Which modules are unfolded, and which of a module's many children are drawn.

import { ancestors, type Outline } from "./outline";

/** Children of one module that are drawn at a time. */
export const PAGE = 120;
/** Boxes drawn at a time, however much is unfolded. */
export const MOST = 700;
const AT_START = 36;

export interface Folds {
  open: ReadonlySet<number>;
  /** By module: which page of its children; the first unless told. */
  pages: ReadonlyMap<number, number>;
}

export interface Shown {
  children: number[];
  /** Children on pages before and after. */
  before: number;
  after: number;
}

export function shown(outline: Outline, { pages }: Folds, id: number): Shown {
  const all = outline.children[id] ?? [];
  const last = Math.max(0, Math.ceil(all.length / PAGE) - 1);
  const start = Math.min(pages.get(id) ?? 0, last) * PAGE;
  const children = all.slice(start, start + PAGE);
  return { children, before: start, after: all.length - start - children.length };
}

/** Boxes that are drawn with these folds. */
export function boxes(outline: Outline, folds: Folds): number[] {
  const list: number[] = [];
  const stack = [...shown(outline, folds, 0).children].reverse();
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    list.push(id);
    if (folds.open.has(id)) stack.push(...[...shown(outline, folds, id).children].reverse());
  }
  return list;
}

/** Unfolded level by level while the whole stays readable; a lone child is always looked into. */
export function atStart(outline: Outline): Folds {
  const open = new Set<number>();
  let level = outline.children[0] ?? [];
  let count = level.length;
  while (level.length > 0) {
    const parents = level.filter((id) => (outline.children[id] ?? []).length > 0);
    const next = parents.flatMap((id) => outline.children[id] ?? []);
    if (next.length === 0 || (count + next.length > AT_START && level.length > 1)) break;
    if (next.length > AT_START) break;
    parents.forEach((id) => open.add(id));
    count += next.length;
    level = next;
  }
  return { open, pages: new Map() };
}

/** Everything below a module unfolded (or, from the root, everywhere) as far as it can be drawn, nearest first. */
export function unfoldBelow(outline: Outline, folds: Folds, id: number): Folds {
  const open = new Set(folds.open);
  if (id !== 0) open.add(id);
  let count = boxes(outline, { ...folds, open }).length;
  const queue = [...shown(outline, folds, id).children];
  for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
    const { children } = shown(outline, folds, at);
    if (children.length === 0) continue;
    if (!open.has(at)) {
      if (count + children.length > MOST) break;
      open.add(at);
      count += children.length;
    }
    queue.push(...children);
  }
  return { ...folds, open };
}

export function toggle(folds: Folds, id: number): Folds {
  const open = new Set(folds.open);
  if (!open.delete(id)) open.add(id);
  return { ...folds, open };
}

export function turnPage(folds: Folds, id: number, by: number): Folds {
  const pages = new Map(folds.pages);
  pages.set(id, Math.max(0, (pages.get(id) ?? 0) + by));
  return { ...folds, pages };
}

/** Folds with which a module is drawn. */
export function reveal(outline: Outline, folds: Folds, id: number): Folds {
  const open = new Set(folds.open);
  const pages = new Map(folds.pages);
  const path = [...ancestors(outline, id), id];
  for (let i = 0; i + 1 < path.length; i++) {
    const parent = path[i] ?? 0;
    const child = path[i + 1] ?? 0;
    if (parent !== 0) open.add(parent);
    pages.set(parent, Math.floor((outline.children[parent] ?? []).indexOf(child) / PAGE));
  }
  return { open, pages };
}
