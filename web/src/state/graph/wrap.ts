// A row of modules of which each hands on to the next needs no layout library: columns, read like a text.

import { IN, OUT, type Flow } from "./flows";
import type { Arranged, Level, Point, Route } from "./scene";

const DOWN = 26;
const ACROSS = 44;
/** Columns are made so that the whole is about so much wider than high. */
const ASPECT = 1.5;
/** A column may be so much higher than wished rather than begin another. */
const OVER = 0.2;
const SHORT = 6;
/** Heights that one column may have: of any number of modules, and of a few. */
const LOW = 360;
const HIGH = 760;

/** Whether every flow goes from one module to the next in order, or in at the first and out at the last. */
export function isChain({ nodes, flows }: Level): boolean {
  const place = new Map(nodes.map(({ id }, i) => [id, i]));
  return flows.every(({ source, target }) => {
    const from = source === IN ? -1 : (place.get(source) ?? NaN);
    const to = target === OUT ? nodes.length : (place.get(target) ?? NaN);
    return to - from === 1;
  });
}

/** Modules in order, top to bottom and then to the right. */
export function wrapped({ nodes, flows }: Level): Arranged {
  const columns = columnsOf(nodes);
  const at = new Map<number, Point>();
  const gap = flows.length > 0 ? DOWN : DOWN / 2;
  let x = 0;
  let height = 0;
  for (const column of columns) {
    const width = Math.max(...column.map((node) => node.width));
    let y = 0;
    for (const node of column) {
      at.set(node.id, [x + (width - node.width) / 2, y]);
      y += node.height + gap;
    }
    height = Math.max(height, y - gap);
    x += width + ACROSS;
  }
  return { width: Math.max(0, x - ACROSS), height, at, routes: flows.flatMap((flow) => routeOf(flow, nodes, at)) };
}

function columnsOf(nodes: Level["nodes"]): Level["nodes"][] {
  const height = nodes.reduce((sum, node) => sum + node.height + DOWN, 0);
  if (height <= LOW || (nodes.length <= SHORT && height <= HIGH)) return [nodes];
  const area = nodes.reduce((sum, { width, height }) => sum + (width + ACROSS) * (height + DOWN), 0);
  const tallest = Math.max(...nodes.map(({ height }) => height + DOWN), Math.sqrt(area / ASPECT));
  const columns: Level["nodes"][] = [];
  let left = 0;
  for (const node of nodes) {
    if (columns.length === 0 || left + tallest * OVER < node.height) {
      columns.push([]);
      left = tallest;
    }
    columns[columns.length - 1]?.push(node);
    left -= node.height + DOWN;
  }
  return columns;
}

function routeOf(flow: Flow, nodes: Level["nodes"], at: Map<number, Point>): Route[] {
  const source = nodes.find(({ id }) => id === flow.source);
  const target = nodes.find(({ id }) => id === flow.target);
  const from = at.get(flow.source);
  const to = at.get(flow.target);
  if (source === undefined || target === undefined || from === undefined || to === undefined) return [];
  const start: Point = [from[0] + source.width / 2, from[1] + source.height];
  const end: Point = [to[0] + target.width / 2, to[1]];
  if (end[1] > start[1]) return [{ flow, points: [start, end] }];
  // Over to the top of the next column, through the gap between the two.
  const between = to[0] - ACROSS / 2;
  const below = start[1] + DOWN / 2;
  const above = end[1] - DOWN / 2;
  return [{ flow, points: [start, [start[0], below], [between, below], [between, above], [end[0], above], end] }];
}
