// Where everything stands. Each unfolded module is laid out by itself, from the inside out, so that a level is never larger
// than one page of children and a change costs what it changes.

import { IN, OUT, type Flow } from "./flows";
import { shown, type Folds } from "./fold";
import { isChain, wrapped } from "./wrap";
import type { Outline } from "./outline";

export type Point = readonly [x: number, y: number];

export interface Box {
  id: number;
  x: number;
  y: number;
  width: number;
  height: number;
  /** Unfolded: a frame around its children. */
  isFrame: boolean;
  depth: number;
}

export interface Route {
  flow: Flow;
  points: Point[];
}

/** A stack of children that are not drawn: the pages before or after. */
export interface More {
  parent: number;
  by: -1 | 1;
  count: number;
  x: number;
  y: number;
}

/** Where the inside of a module takes in or gives out. */
export type Port = Point;

export interface Scene {
  width: number;
  height: number;
  /** Every frame before what stands in it; siblings in execution order. */
  boxes: Box[];
  routes: Route[];
  more: More[];
  ports: Port[];
}

export interface Size {
  width: number;
  height: number;
}

export interface Level {
  /** In execution order. */
  nodes: ({ id: number } & Size)[];
  flows: Flow[];
}

export interface Arranged extends Size {
  /** Top left corners, by id; those of the ports IN and OUT too. */
  at: Map<number, Point>;
  routes: Route[];
}

/** Lays one level out: the layout library, loaded when it is first needed. */
export type Arrange = (level: Level) => Arranged;

export const BOX: Size = { width: 184, height: 50 };
export const HEAD = 30;
export const PAD = 14;
export const MORE_HEIGHT = 26;

export function sceneOf(outline: Outline, flows: Map<number, Flow[]>, folds: Folds, arrange: Arrange): Scene {
  return inside(outline, flows, folds, arrange, 0);
}

function inside(outline: Outline, flows: Map<number, Flow[]>, folds: Folds, arrange: Arrange, parent: number): Scene {
  const { children, before, after } = shown(outline, folds, parent);
  const scenes = new Map<number, Scene>();
  const nodes = children.map((id) => {
    if (!folds.open.has(id) || (outline.children[id] ?? []).length === 0) return { id, ...BOX };
    const scene = inside(outline, flows, folds, arrange, id);
    scenes.set(id, scene);
    return { id, width: Math.max(BOX.width, scene.width + 2 * PAD), height: scene.height + HEAD + PAD };
  });
  const level = { nodes, flows: between(children, flows.get(parent) ?? []) };
  const arranged = nodes.length === 1 || isChain(level) || level.flows.length === 0 ? wrapped(level) : arrange(level);
  return composed(outline, parent, level, arranged, scenes, before, after);
}

/** Flows with both ends drawn. */
function between(children: number[], flows: Flow[]): Flow[] {
  const here = new Set([...children, IN, OUT]);
  return flows.filter(({ source, target }) => here.has(source) && here.has(target));
}

function composed(outline: Outline, parent: number, level: Level, arranged: Arranged, scenes: Map<number, Scene>, before: number, after: number): Scene {
  const top = before > 0 ? MORE_HEIGHT + PAD : 0;
  const scene: Scene = { width: arranged.width, height: top + arranged.height, boxes: [], routes: [], more: [], ports: [] };
  if (before > 0) scene.more.push({ parent, by: -1, count: before, x: 0, y: 0 });
  for (const { id, width, height } of level.nodes) {
    const [x, y] = arranged.at.get(id) ?? [0, 0];
    const inner = scenes.get(id);
    scene.boxes.push({ id, x, y: y + top, width, height, isFrame: inner !== undefined, depth: outline.depth[id] ?? 1 });
    if (inner !== undefined) take(scene, inner, x + (width - inner.width) / 2, y + top + HEAD);
  }
  for (const route of arranged.routes) scene.routes.push({ ...route, points: route.points.map(([x, y]) => [x, y + top] as const) });
  for (const port of [IN, OUT]) {
    const at = arranged.at.get(port);
    if (at !== undefined) scene.ports.push([at[0], at[1] + top]);
  }
  if (after > 0) {
    scene.more.push({ parent, by: 1, count: after, x: 0, y: scene.height + PAD });
    scene.height += MORE_HEIGHT + PAD;
  }
  scene.width = Math.max(scene.width, before + after > 0 ? BOX.width : 0);
  return scene;
}

/** Puts an inner scene into its frame. */
function take(scene: Scene, inner: Scene, dx: number, dy: number): void {
  const moved = ([x, y]: Point): Point => [x + dx, y + dy];
  scene.boxes.push(...inner.boxes.map((box) => ({ ...box, x: box.x + dx, y: box.y + dy })));
  scene.routes.push(...inner.routes.map((route) => ({ ...route, points: route.points.map(moved) })));
  scene.more.push(...inner.more.map((more) => ({ ...more, x: more.x + dx, y: more.y + dy })));
  scene.ports.push(...inner.ports.map(moved));
}
