import { expect, it } from "vitest";
import { atStart } from "../state/graph/fold";
import { flowsOf } from "../state/graph/flows";
import { outlineOf } from "../state/graph/outline";
import { sceneOf, type Scene } from "../state/graph/scene";
import { asGraph } from "../wire/graph";
import { arranging } from "./arranging";

const NAMES: [name: string, parent: number | null][] = [["", null], ["a", 0], ["b", 0], ["list", 0], ["list.0", 3], ["list.1", 3], ["list.1.x", 5], ["lone", 0]];
const nodes = NAMES.map(([name, parent], id) => ({ id, name, type: "Linear", parent, order: id }));

async function sceneWith(edges: [number, number][]): Promise<Scene> {
  const graph = asGraph({ label: null, hash: null, recorded: true, parameters: {}, nodes, edges: edges.map(([source, target]) => ({ source, target })) });
  if (graph === null) throw new Error("no graph");
  const outline = outlineOf(graph);
  return sceneOf(outline, flowsOf(outline, graph.edges), atStart(outline), await arranging());
}

it("what stands in a module stands inside of its frame, siblings in reading order", async () => {
  const scene = await sceneWith([[1, 2], [2, 6], [6, 4], [1, 4]]);
  const byId = new Map(scene.boxes.map((box) => [box.id, box]));
  for (const box of scene.boxes) {
    const frame = byId.get(NAMES[box.id]?.[1] ?? 0);
    if (frame === undefined) continue;
    expect(box.x).toBeGreaterThanOrEqual(frame.x);
    expect(box.y).toBeGreaterThan(frame.y);
    expect(box.x + box.width).toBeLessThanOrEqual(frame.x + frame.width);
    expect(box.y + box.height).toBeLessThanOrEqual(frame.y + frame.height);
  }
  const tops = [1, 2, 3, 7].map((id) => byId.get(id)?.y ?? NaN);
  expect(tops).toEqual([...tops].sort((a, b) => a - b));
  const ways = scene.routes.map(({ flow }) => `${flow.source} ${flow.target}`);
  expect(ways.sort()).toEqual(["-1 4", "-1 5", "1 2", "1 3", "2 3", "5 4"]);
  expect(scene.ports).toHaveLength(1);
});

it("a module that runs twice makes a circle, and is laid out", async () => {
  const scene = await sceneWith([[1, 2], [2, 1], [1, 3], [2, 3]]);
  expect(scene.boxes).toHaveLength(7);
  expect(scene.routes.every(({ points }) => points.length >= 2 && points.flat().every(Number.isFinite))).toBe(true);
});

it("what feeds the same module stands side by side, what has nothing to do with it below", async () => {
  const scene = await sceneWith([[1, 3], [2, 3]]);
  const box = (id: number) => scene.boxes.find((one) => one.id === id);
  const y = (id: number) => box(id)?.y ?? NaN;
  expect(box(1)?.x).toBeLessThan(box(2)?.x ?? NaN);
  expect(y(1)).toBe(y(2));
  expect(y(3)).toBeGreaterThan(y(2));
  expect(y(7)).toBeGreaterThan(y(3));
});
