import { expect, it } from "vitest";
import { asHeat } from "./diagnosis";
import { asGraph } from "./graph";
import { asBaked, asRun } from "./guards";
import { ShapeError } from "./shape";

const RUN = { id: "r", name: "n", state: "running", ranks: {} };
const node = (id: number, parent: number | null) => ({ id, name: `m${id}`, type: "Linear", parent });
const graph = (nodes: unknown[], edges: unknown[] = []) => ({ label: null, hash: null, recorded: true, parameters: {}, nodes, edges });
const heat = (own: unknown[]) => ({ ranks: [0, 1], step: [1, 2], time: [10, 11], own, data: [[1, 2], [3, null]], wall: [[1, 2], [3, 4]] });

it("a run of an older server has no diagnosis; a newer one's is filled in", () => {
  expect(asRun(RUN).diagnosis).toBeNull();
  const verdict = { id: 1, kind: "straggler", text: "rank 1 is behind", path: "root/a/rank1" };
  const found = asRun({ ...RUN, diagnosis: { steps: 20, bound_text: "", verdicts: [verdict] } }).diagnosis;
  expect(found?.verdicts[0]).toMatchObject({ active: true, rank: null, gain_seconds: null });
  expect(found?.balance).toEqual([]);
  expect(() => asRun({ ...RUN, diagnosis: { verdicts: [{ id: 1 }] } })).toThrow(ShapeError);
});

it("modules are in their places, and edges lead somewhere", () => {
  expect(asGraph(null)).toBeNull();
  expect(asGraph(graph([]))).toBeNull();
  expect(asGraph(graph([node(0, null), node(1, 0)], [{ source: 0, target: 1 }]))?.edges[0]).toMatchObject({ tensor: null, count: 1 });
  expect(() => asGraph(graph([node(0, null), node(1, 1)]))).toThrow("module 1");
  expect(() => asGraph(graph([node(0, null), node(2, 0)]))).toThrow("module 1");
  expect(() => asGraph(graph([node(0, null)], [{ source: 0, target: 7 }]))).toThrow("module 7");
});

it("a heat map's rows fit its ranks and columns", () => {
  expect(asHeat(heat([[1, 2], [null, 4]])).own[1]).toEqual([null, 4]);
  expect(() => asHeat(heat([[1, 2]]))).toThrow(ShapeError);
  expect(() => asHeat(heat([[1, 2], [3]]))).toThrow(ShapeError);
});

it("a report without graph and heat map is a report", () => {
  expect(asBaked({ run: RUN })).toMatchObject({ graph: null, heat: null, svg: null, series: [] });
});
