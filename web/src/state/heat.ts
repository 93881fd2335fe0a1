// Rank × time for one gauge: one glance shows the row that is different.

import { median } from "./load";

export interface HeatRow {
  rank: number;
  path: string;
  x: number[];
  values: (number | null)[];
}

export interface Heat {
  rows: HeatRow[];
  /** One line of cells a row; null where nothing was measured. */
  cells: (number | null)[][];
  /** What the ends of the colour scale stand for. */
  low: number;
  high: number;
  from: number;
  to: number;
  /** The row that differs most from the usual one, if one does. */
  odd: { rank: number; mean: number; usual: number } | null;
}

const FEW = 3;
const ODD_DEVIATIONS = 4;
const ODD_RATIO = 0.05;

/** Means of equal spans of x, at most `columns` of them. Null when there is no value at all. */
export function heatOf(rows: HeatRow[], columns: number): Heat | null {
  const withData = rows.filter((row) => row.x.length > 0);
  const from = Math.min(...withData.map((row) => row.x[0] ?? Infinity));
  const to = Math.max(...withData.map((row) => row.x[row.x.length - 1] ?? -Infinity));
  if (!(from <= to)) return null;
  const longest = Math.max(...withData.map((row) => row.x.length));
  const count = Math.max(1, Math.min(columns, longest));
  const cells = rows.map((row) => bucketed(row, from, to, count));
  const known = cells.flat().filter((value): value is number => value !== null).sort((a, b) => a - b);
  if (known.length === 0) return null;
  const at = (share: number) => known[Math.round(share * (known.length - 1))] ?? 0;
  return { rows, cells, low: at(0.01), high: at(0.99), from, to, odd: oddOf(rows, cells) };
}

function bucketed(row: HeatRow, from: number, to: number, count: number): (number | null)[] {
  const sums: number[] = new Array(count).fill(0);
  const hits: number[] = new Array(count).fill(0);
  const span = to - from || 1;
  row.x.forEach((x, i) => {
    const value = row.values[i];
    if (value === null || value === undefined || !Number.isFinite(value)) return;
    const place = Math.min(count - 1, Math.floor(((x - from) / span) * count));
    sums[place] = (sums[place] ?? 0) + value;
    hits[place] = (hits[place] ?? 0) + 1;
  });
  return sums.map((sum, i) => ((hits[i] ?? 0) > 0 ? sum / (hits[i] ?? 1) : null));
}

function oddOf(rows: HeatRow[], cells: (number | null)[][]): Heat["odd"] {
  const means = cells.map((line) => {
    const known = line.filter((value): value is number => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
  });
  const usual = median(means);
  if (usual === null || means.filter((value) => value !== null).length < FEW) return null;
  const deviation = median(means.map((value) => (value === null ? null : Math.abs(value - usual)))) ?? 0;
  let worst = -1;
  let distance = Math.max(ODD_DEVIATIONS * deviation, Math.abs(usual) * ODD_RATIO);
  means.forEach((value, i) => {
    if (value !== null && Math.abs(value - usual) > distance) {
      worst = i;
      distance = Math.abs(value - usual);
    }
  });
  const row = rows[worst];
  return row === undefined ? null : { rank: row.rank, mean: means[worst] ?? usual, usual };
}
