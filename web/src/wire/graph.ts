// The edge for the model's graph. Behind it ids are places in `nodes` and every parent comes before its children.

import { fields, filled, list, ShapeError } from "./shape";
import type { GraphDocument, GraphEdge, GraphNode, GraphParameters } from "./types.gen";

function asNode(value: unknown, place: number): GraphNode {
  const node = filled<GraphNode>(value, "module", { id: "number", name: "string", type: "string" }, {
    parent: null, parameters: 0, trainable: 0, buffers: 0, shared_with: [], calls: null, order: null, inputs: [],
    outputs: [], hidden: 0, forward_seconds: null, backward_seconds: null, memory: null,
  });
  const isPlaced = place === 0 ? node.parent === null : Number.isInteger(node.parent) && (node.parent ?? -1) >= 0 && (node.parent ?? place) < place;
  if (node.id !== place || !isPlaced) throw new ShapeError(`module ${place} is not in its place`);
  return node;
}

function asEdge(value: unknown, count: number): GraphEdge {
  const edge = filled<GraphEdge>(value, "edge", { source: "number", target: "number" }, { tensor: null, count: 1 });
  for (const end of [edge.source, edge.target]) {
    if (!Number.isInteger(end) || end < 0 || end >= count) throw new ShapeError(`an edge leads to module ${end}, which is not there`);
  }
  return edge;
}

/** The graph, or null when there is none yet. */
export function asGraph(value: unknown): GraphDocument | null {
  if (value === null || value === undefined) return null;
  const from = fields(value, "graph");
  const nodes = list(from["nodes"], "graph.nodes").map(asNode);
  if (nodes.length === 0) return null;
  return {
    ...filled<GraphDocument>(value, "graph", {}, { label: null, hash: null, recorded: false, note: null, passes: 0, on_device: false, timed_rank: null }),
    parameters: filled<GraphParameters>(from["parameters"] ?? {}, "graph.parameters", {}, { total: 0, trainable: 0, frozen: 0, shared: 0 }),
    nodes,
    edges: list(from["edges"] ?? [], "graph.edges").map((edge) => asEdge(edge, nodes.length)),
  };
}
