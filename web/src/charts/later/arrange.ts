// One level of the model, laid out by dagre. This is a script of its own, fetched when the Model tab is first opened; a
// report has it inside. It stands alone and announces itself, since a script inside a page cannot be imported.

import { Graph, layout } from "@dagrejs/dagre";
import type { Arranged, Level, Point, Route } from "../../state/graph/scene";

const IN = -1;
const OUT = -2;
const PORT = 6;
const NODE_GAP = 22;
const RANK_GAP = 30;
/** From here on a simpler ranking: the better one takes too long. */
const MANY = 60;

function arrange({ nodes, flows }: Level): Arranged {
  const graph = new Graph({ multigraph: false });
  graph.setGraph({ rankdir: "TB", nodesep: NODE_GAP, ranksep: RANK_GAP, edgesep: 12, ranker: nodes.length > MANY ? "tight-tree" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  const sizes = new Map(nodes.map(({ id, width, height }) => [id, { width, height }]));
  for (const port of [IN, OUT]) if (flows.some(({ source, target }) => source === port || target === port)) sizes.set(port, { width: PORT, height: PORT });
  for (const [id, size] of sizes) graph.setNode(String(id), { ...size });
  for (const { source, target } of flows) graph.setEdge(String(source), String(target), { weight: 2 });
  inReadingOrder(graph, nodes.map(({ id }) => id), flows);
  layout(graph);
  return read(graph, sizes, flows);
}

/** What hangs together with nothing before it still comes after what ran before it; the ports are the first and the last. */
function inReadingOrder(graph: Graph, order: number[], flows: Level["flows"]): void {
  const first = firstOfParts(order, flows);
  order.forEach((id, i) => {
    const before = order[i - 1];
    if (before !== undefined && first.has(id)) graph.setEdge(String(before), String(id), { weight: 0 });
  });
  const [start, end] = [order[0], order[order.length - 1]].map(String);
  if (graph.hasNode(String(IN)) && start !== undefined && !graph.hasEdge(String(IN), start)) graph.setEdge(String(IN), start, { weight: 0 });
  if (graph.hasNode(String(OUT)) && end !== undefined && !graph.hasEdge(end, String(OUT))) graph.setEdge(end, String(OUT), { weight: 0 });
}

/** The first module of each part that hangs together, whichever way its tensors flow. */
function firstOfParts(order: number[], flows: Level["flows"]): Set<number> {
  const neighbours = new Map<number, number[]>();
  for (const { source, target } of flows) {
    neighbours.set(source, [...(neighbours.get(source) ?? []), target]);
    neighbours.set(target, [...(neighbours.get(target) ?? []), source]);
  }
  const seen = new Set<number>();
  const first = new Set<number>();
  for (const id of order) {
    if (seen.has(id)) continue;
    first.add(id);
    const stack = [id];
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (seen.has(at)) continue;
      seen.add(at);
      stack.push(...(neighbours.get(at) ?? []));
    }
  }
  return first;
}

function read(graph: Graph, sizes: Map<number, { width: number; height: number }>, flows: Level["flows"]): Arranged {
  const at = new Map<number, Point>();
  for (const [id, { width, height }] of sizes) {
    const { x, y } = graph.node(String(id)) as { x: number; y: number };
    at.set(id, id < 0 ? [x, y] : [x - width / 2, y - height / 2]);
  }
  const routes: Route[] = flows.map((flow) => {
    const { points } = graph.edge(String(flow.source), String(flow.target)) as { points: { x: number; y: number }[] };
    return { flow, points: points.map(({ x, y }) => [x, y] as const) };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return inReadingDirection({ width, height, at, routes }, sizes);
}

/** Of modules side by side, those that ran first stand left where that costs no crossing: the whole is mirrored or not. */
function inReadingDirection(arranged: Arranged, sizes: Map<number, { width: number; height: number }>): Arranged {
  const { width, at, routes } = arranged;
  const middle = (id: number): Point => [(at.get(id)?.[0] ?? 0) + (sizes.get(id)?.width ?? 0) / 2, (at.get(id)?.[1] ?? 0) + (sizes.get(id)?.height ?? 0) / 2];
  const places = [...sizes.keys()].filter((id) => id >= 0).map(middle);
  let against = 0;
  places.forEach(([x, y], i) => {
    for (const [otherX, otherY] of places.slice(i + 1)) if (Math.abs(y - otherY) < 1) against += Math.sign(x - otherX);
  });
  if (against <= 0) return arranged;
  const corner = (id: number, [x, y]: Point): Point => [id < 0 ? width - x : width - x - (sizes.get(id)?.width ?? 0), y];
  return {
    ...arranged,
    at: new Map([...at].map(([id, point]) => [id, corner(id, point)])),
    routes: routes.map((route) => ({ ...route, points: route.points.map(([x, y]) => [width - x, y] as const) })),
  };
}

Reflect.set(globalThis, Symbol.for("trackside.arrange"), arrange);
export {};
