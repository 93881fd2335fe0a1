import { expect, it } from "vitest";
import { cutTo } from "./fit";
import { cellAt, cellBy, heatLayout, sharedLines } from "./heatmap";
import { polyline } from "./polyline";

it("text is cut where it does not fit, between letters", () => {
  const width = (text: string) => [...text].length;
  expect(cutTo("conv1", 5, width)).toBe("conv1");
  expect(cutTo("convolution", 6, width)).toBe("convo…");
  expect(cutTo("🙂🙂🙂🙂", 3, width)).toBe("🙂🙂…");
  expect(cutTo("x".repeat(5000), 4, width)).toBe("xxx…");
});

it("a way has round corners", () => {
  expect(polyline([])).toBe("");
  expect(polyline([[0, 0], [0, 10]])).toBe("M0 0L0 10");
  expect(polyline([[0, 0], [0, 100], [100, 100]])).toBe("M0 0L0 91Q0 100 9 100L100 100");
});

const heat = {
  rows: [0, 1, 2].map((rank) => ({ rank, path: `root/rank${rank}`, x: [0, 1], values: [1, 1] })),
  cells: [[1, 1], [1, 1], [9, 9]].map((line) => Float64Array.from(line)), low: 1, high: 9, isBelow: false, isAbove: false, from: 0, to: 1, means: [1, 1, 9], odd: { rank: 2, mean: 9, usual: 1 },
};

it("cells of a heat map are found by pointing and by keys, the odd row first", () => {
  const layout = heatLayout(3, 262, false, 900);
  expect(cellAt(heat, layout, layout.left + 150, 1.5 * layout.rowHeight)).toEqual({ row: 1, column: 1 });
  expect(cellAt(heat, layout, 3, 20)).toBeNull();
  expect(cellBy("ArrowUp", null, heat)).toEqual({ row: 2, column: 1 });
  expect(cellBy("ArrowUp", { row: 2, column: 1 }, heat)).toEqual({ row: 1, column: 1 });
  expect(cellBy("Home", { row: 2, column: 1 }, heat)).toEqual({ row: 2, column: 0 });
  expect(cellBy("End", { row: 0, column: 1 }, heat)).toEqual({ row: 0, column: 1 });
  expect(cellBy("x", null, heat)).toBeNull();
});

it("a thousand ranks are seen at one glance, and the odd one among them", () => {
  const { rowHeight, height } = heatLayout(1024, 500, false, 900);
  expect(height).toBe(580);
  expect(rowHeight * 1024).toBeCloseTo(560);
  const cells = Array.from({ length: 1024 }, (_, row) => Float64Array.of(row === 517 ? 9 : 1, row === 517 ? NaN : 1));
  const lines = sharedLines(cells, 560);
  expect(lines).toHaveLength(560);
  expect(lines.filter(([value]) => value === 9)).toHaveLength(1);
  expect(lines.every(([, value]) => value === 1)).toBe(true);
  expect(sharedLines(cells.slice(0, 3), 560)).toHaveLength(3);
});

it("a large screen shows more of very many ranks, and names of hosts stand where there is room", () => {
  expect(heatLayout(1024, 3000, true, 2000).height).toBe(1020);
  expect(heatLayout(600, 3000, true, 2000).height).toBe(620);
  expect(heatLayout(64, 3000, true, 2000).rowHeight).toBe(heatLayout(64, 1400, true, 900).rowHeight);
  expect(heatLayout(8, 1400, true, 900).hosts).toBeGreaterThan(0);
  expect(heatLayout(8, 1400, false, 900).hosts).toBe(0);
  expect(heatLayout(8, 340, true, 900)).toEqual(heatLayout(8, 340, false, 900));
});
