import { expect, it } from "vitest";
import { asGraph } from "../../wire/graph";
import type { GraphDocument } from "../../wire/types.gen";
import { atStart, boxes, MOST, PAGE, reveal, shown, toggle, turnPage, unfoldBelow } from "./fold";
import { flowsOf, IN, OUT } from "./flows";
import { costliest, figure, knownTints, scaleOf, shareOf, strength, tensorText } from "./measure";
import { found, inOrder, outlineOf, shortName } from "./outline";
import { sceneOf, type Level } from "./scene";
import { isChain, wrapped } from "./wrap";

type Row = [name: string, parent: number | null, order: number | null, more?: object];

function graph(rows: Row[], edges: [number, number][] = []): GraphDocument {
  const nodes = rows.map(([name, parent, order, more], id) => ({ id, name, type: name === "" ? "Net" : "Linear", parent, order, ...more }));
  const made = asGraph({ label: null, hash: null, recorded: true, parameters: {}, nodes, edges: edges.map(([source, target]) => ({ source, target, tensor: { shape: [2, 3], dtype: "float32" } })) });
  if (made === null) throw new Error("no graph");
  return made;
}

// root > a, list > (list.0, list.1 > list.1.x), b; the list itself never runs; b ran before it.
const NET = graph(
  [["", null, 0], ["a", 0, 1], ["list", 0, null], ["list.0", 2, 5], ["list.1", 2, 3], ["list.1.x", 4, 4], ["b", 0, 2]],
  [[1, 6], [6, 5], [5, 3], [0, 1]],
);

it("modules stand in execution order, a list where the first of its modules ran", () => {
  const outline = outlineOf(NET);
  expect(outline.children).toEqual([[1, 6, 2], [], [4, 3], [], [5], [], []]);
  expect(outline.depth).toEqual([0, 1, 1, 2, 2, 3, 1]);
  expect(outline.below).toEqual([6, 0, 3, 0, 1, 0, 0]);
  expect(inOrder(outline)).toEqual([0, 1, 6, 2, 4, 5, 3]);
  expect(NET.nodes.map(shortName)).toEqual(["Net", "a", "list", "0", "1", "x", "b"]);
});

it("a search finds names and classes, in execution order", () => {
  const outline = outlineOf(NET);
  expect(found(outline, "list.1")).toEqual([4, 5]);
  expect(found(outline, "/^a$|^b$/")).toEqual([1, 6]);
  expect(found(outline, "net")).toEqual([0]);
  expect(found(outline, " ")).toEqual([]);
});

it("a tensor goes out of its module, across, and in; and each way is told once", () => {
  const ways = (at: number) => flowsOf(outlineOf(NET), NET.edges).get(at)?.map(({ source, target, count }) => [source, target, count]);
  expect(ways(0)).toEqual([[1, 6, 1], [6, 2, 1], [IN, 1, 1]]);
  expect(ways(2)).toEqual([[IN, 4, 1], [4, 3, 1]]);
  expect(ways(4)).toEqual([[IN, 5, 1], [5, OUT, 1]]);
  const twice = graph([["", null, 0], ["a", 0, 1], ["b", 0, 2], ["b.x", 2, 3], ["b.y", 2, 4]], [[1, 2], [1, 3], [1, 4]]);
  twice.edges.push({ source: 1, target: 3, tensor: null, count: 2 });
  expect(flowsOf(outlineOf(twice), twice.edges).get(0)).toEqual([expect.objectContaining({ source: 1, target: 2, count: 2, from: 1, to: 2 })]);
});

it("small models are unfolded, a lone child always, large ones stay folded", () => {
  expect([...atStart(outlineOf(NET)).open]).toEqual([2, 4]);
  const wide = graph([["", null, 0], ["module", 0, 1], ...Array.from({ length: 30 }, (_, i): Row => [`module.${i}`, 1, null]), ...Array.from({ length: 60 }, (_, i): Row => [`module.${i % 30}.${i}`, 2 + (i % 30), null])]);
  expect([...atStart(outlineOf(wide)).open]).toEqual([1]);
});

it("many children come page by page, and what is searched is on its page", () => {
  const many = outlineOf(graph([["", null, 0], ...Array.from({ length: 300 }, (_, i): Row => [`m${i}`, 0, i])]));
  const first = atStart(many);
  expect(shown(many, first, 0)).toMatchObject({ before: 0, after: 300 - PAGE });
  expect(shown(many, turnPage(first, 0, 1), 0).before).toBe(PAGE);
  expect(shown(many, turnPage(first, 0, 99), 0)).toMatchObject({ before: 240, after: 0 });
  expect(shown(many, reveal(many, first, 300), 0).children).toContain(300);
});

it("revealing unfolds what lies above, toggling folds again", () => {
  const outline = outlineOf(NET);
  const folded = { open: new Set<number>(), pages: new Map<number, number>() };
  expect(boxes(outline, folded)).toEqual([1, 6, 2]);
  const open = reveal(outline, folded, 5);
  expect(boxes(outline, open)).toEqual([1, 6, 2, 4, 5, 3]);
  expect(boxes(outline, toggle(open, 4))).toEqual([1, 6, 2, 4, 3]);
});

/** 10,000 modules: 100 stages of 99 layers. */
function huge(): GraphDocument {
  const rows: Row[] = [["", null, 0]];
  for (let stage = 0; stage < 100; stage++) {
    const id = rows.push([`s${stage}`, 0, rows.length]) - 1;
    for (let layer = 0; layer < 99; layer++) rows.push([`s${stage}.${layer}`, id, rows.length]);
  }
  return graph(rows, rows.flatMap(([, parent], id): [number, number][] => (parent === 0 || parent === null || id < 3 ? [] : [[id - 1, id]])));
}

it("ten thousand modules are folded at start and never drawn all at once", () => {
  const document = huge();
  const outline = outlineOf(document);
  const folds = atStart(outline);
  expect(boxes(outline, folds)).toHaveLength(100);
  const all = unfoldBelow(outline, folds, 0);
  expect(boxes(outline, all).length).toBeGreaterThan(300);
  expect(boxes(outline, all).length).toBeLessThanOrEqual(MOST);
  const scene = sceneOf(outline, flowsOf(outline, document.edges), all, wrapped);
  expect(scene.boxes).toHaveLength(boxes(outline, all).length);
});

const level = (count: number, flows: [number, number][]): Level => ({
  nodes: Array.from({ length: count }, (_, id) => ({ id, width: 100, height: 40 })),
  flows: flows.map(([source, target]) => ({ source, target, count: 1, tensor: null, from: source, to: target })),
});

it("a chain is told from a graph, and read in columns", () => {
  expect(isChain(level(3, [[IN, 0], [0, 1], [1, 2], [2, OUT]]))).toBe(true);
  expect(isChain(level(3, [[0, 1], [0, 2]]))).toBe(false);
  expect(isChain(level(3, [[1, 0]]))).toBe(false);
  const laid = wrapped(level(30, Array.from({ length: 29 }, (_, i) => [i, i + 1])));
  expect(laid.routes).toHaveLength(29);
  expect(laid.width / laid.height).toBeGreaterThan(0.8);
  expect(laid.width / laid.height).toBeLessThan(3);
  expect(laid.at.get(1)?.[1]).toBeGreaterThan(laid.at.get(0)?.[1] ?? Infinity);
});

it("what is small stays in the column of what is large", () => {
  const tall = { id: 0, width: 300, height: 900 };
  const laid = wrapped({ ...level(2, [[0, 1]]), nodes: [tall, { id: 1, width: 100, height: 40 }] });
  expect(laid.at.get(1)?.[1]).toBeGreaterThan(900);
  expect(laid.width).toBe(300);
});

it("modules are measured by time, parameters or memory; what is unknown stays unknown", () => {
  const timed = graph([["", null, 0, { forward_seconds: 0.01, backward_seconds: 0.03, parameters: 50 }], ["a", 0, 1, { forward_seconds: 0.01, parameters: 50 }], ["b", 0, 2]]);
  const scale = scaleOf(timed, [1, 2], "time");
  expect(scale).toEqual({ tint: "time", most: 0.01, whole: 0.04 });
  expect([strength(0.01, scale), shareOf(0.01, scale), strength(null, scale)]).toEqual([1, 0.25, null]);
  expect(scaleOf(timed, [1, 2], "memory").most).toBeNull();
  expect(costliest(timed, outlineOf(timed), "time", 5)).toEqual([1]);
  expect(knownTints(timed)).toEqual(["time", "parameters"]);
  expect([figure(0.01, "time"), figure(11e6, "parameters"), figure(null, "memory")]).toEqual(["10.0ms", "11.0\u202fM", "–"]);
  expect(tensorText({ shape: [8, 3], dtype: "float32" })).toBe("8 × 3 float32");
});
