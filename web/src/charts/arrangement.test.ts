import { expect, it } from "vitest";
import { arrange } from "./arrangement";

it("few charts are large, many as small as can be read", () => {
  expect(arrange([1], 800, 620)).toEqual({ columns: 1, plot: 372 });
  expect(arrange([2, 2, 2, 3, 2], 808, 600)).toEqual({ columns: 2, plot: 176 });
  expect(arrange([500], 808, 600)).toEqual({ columns: 2, plot: 176 });
  expect(arrange([1], 350, 500).columns).toBe(1);
  expect(arrange([], 0, 0)).toEqual({ columns: 1, plot: 0 + 176 });
});

it("a wide screen is filled: groups stand beside each other", () => {
  const { columns, plot } = arrange([2, 2, 2, 3, 2], 3000, 1850);
  expect(columns).toBe(4);
  expect(plot).toBeGreaterThan(300);
  expect(arrange([400], 3000, 1850)).toEqual({ columns: 7, plot: 208 });
});

it("a plot grows into the room that is left, and all stay in view", () => {
  const { columns, plot } = arrange([3, 1], 3070, 1850);
  expect(columns).toBe(3);
  expect(plot).toBeGreaterThan(550);
  expect(2 * (plot + 74 + 12 + 46)).toBeLessThanOrEqual(1850);
});

it("charts that can be in view together are", () => {
  for (const width of [350, 800, 1400, 2000, 3000]) {
    for (const groups of [[1], [2], [3, 1], [2, 2, 4], [12, 1, 1]]) {
      const { columns, plot } = arrange(groups, width, 1200);
      const chart = (width - (columns - 1) * 12) / columns;
      expect(chart).toBeGreaterThanOrEqual(Math.min(width, 310) - 1);
      expect(plot).toBeGreaterThanOrEqual(176);
    }
  }
});
