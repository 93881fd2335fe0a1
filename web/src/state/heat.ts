// Rank × time for one gauge: one glance shows the row that is different.

import { mean, median } from "./load";

export interface HeatRow {
  rank: number;
  path: string;
  x: number[];
  values: (number | null)[];
  /** Whether its process has gone. */
  isGone?: boolean;
  /** Where each value's span began, when it holds for a span and not for a moment. */
  from?: number[];
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
  /** Of each row over the whole time. */
  means: (number | null)[];
  /** The row that differs most from the usual one, if one does. */
  odd: { rank: number; mean: number; usual: number } | null;
}

const FEW = 3;
/** Spans differ in length: so many cells for each keep their ends near where they were. */
const FINER = 4;
const ODD_DEVIATIONS = 4;
const ODD_RATIO = 0.05;
/** Of two rows neither is the usual one: they must be this far apart, and nearly always the same way round. */
const APART_RATIO = 0.15;
const APART_CELLS = 0.8;
const LEAST_CELLS = 5;
/** The colour scale spans at least this part of the usual value. */
const LEAST_SPAN = 0.2;

/** Means of equal spans of x, at most `columns` of them. Null when there is no value at all. `isLess`: less is the worse. */
export function heatOf(rows: HeatRow[], columns: number, isLess = false): Heat | null {
  const withData = rows.filter((row) => row.x.length > 0);
  const from = Math.min(...withData.map((row) => row.from?.[0] ?? row.x[0] ?? Infinity));
  const to = Math.max(...withData.map((row) => row.x[row.x.length - 1] ?? -Infinity));
  if (!(from <= to)) return null;
  const longest = Math.max(...withData.map((row) => row.x.length * (row.from === undefined ? 1 : FINER)));
  const count = Math.max(1, Math.min(columns, longest));
  const cells = rows.map((row) => (row.from === undefined ? bucketed(row, from, to, count) : spanned(row, row.from, from, to, count)));
  const known = cells.flat().filter((value): value is number => value !== null).sort((a, b) => a - b);
  if (known.length === 0) return null;
  const means = cells.map((line) => mean(line));
  const odd = withData.length === 2 ? oddOfTwo(rows, cells, isLess) : oddOf(rows, means);
  return { rows, cells, means, ...scaleOf(known, odd), from, to, odd };
}

/** Nearly all values, the odd row's too; wide enough that mere noise does not look like a difference. */
function scaleOf(sorted: number[], odd: Heat["odd"]): { low: number; high: number } {
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  const low = Math.min(at(0.01), odd?.mean ?? Infinity);
  const high = Math.max(at(0.99), odd?.mean ?? -Infinity);
  return { low, high: Math.max(high, low + Math.abs(at(0.5)) * LEAST_SPAN) };
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

/** Each value counts as long as it held: a cell is the mean over its own stretch of time. */
function spanned(row: HeatRow, begins: number[], from: number, to: number, count: number): (number | null)[] {
  const sums: number[] = new Array(count).fill(0);
  const weights: number[] = new Array(count).fill(0);
  const width = (to - from || 1) / count;
  row.x.forEach((end, i) => {
    const value = row.values[i];
    if (value === null || value === undefined || !Number.isFinite(value)) return;
    const begin = Math.min(begins[i] ?? end, end);
    const first = Math.min(count - 1, Math.max(0, Math.floor((begin - from) / width)));
    const last = Math.min(count - 1, Math.max(first, Math.ceil((end - from) / width) - 1));
    for (let place = first; place <= last; place++) {
      const overlap = Math.min(end, from + (place + 1) * width) - Math.max(begin, from + place * width);
      const weight = Math.max(overlap, width * 1e-6);
      sums[place] = (sums[place] ?? 0) + value * weight;
      weights[place] = (weights[place] ?? 0) + weight;
    }
  });
  return sums.map((sum, i) => ((weights[i] ?? 0) > 0 ? sum / (weights[i] ?? 1) : null));
}

/** Of two rows the worse one, where it is worse nearly all the time. */
function oddOfTwo(rows: HeatRow[], cells: (number | null)[][], isLess: boolean): Heat["odd"] {
  const [a = -1, b = -1] = rows.flatMap((row, i) => (row.x.length > 0 ? [i] : []));
  const pairs = (cells[a] ?? []).flatMap((value, i) => {
    const other = cells[b]?.[i] ?? null;
    return value === null || other === null ? [] : [[value, other] as const];
  });
  const [first, second] = [mean(pairs.map(([left]) => left)) ?? NaN, mean(pairs.map(([, right]) => right)) ?? NaN];
  const isFirstWorse = first > second !== isLess;
  const [worse, usual] = isFirstWorse ? [first, second] : [second, first];
  const same = pairs.filter(([left, right]) => left !== right && (left > right !== isLess) === isFirstWorse).length;
  if (pairs.length < LEAST_CELLS || same < pairs.length * APART_CELLS || Math.abs(worse - usual) < Math.abs(usual) * APART_RATIO) return null;
  const row = rows[isFirstWorse ? a : b];
  return row === undefined ? null : { rank: row.rank, mean: worse, usual };
}

/** The same map with a row marked that is known to be the odd one, where the cells alone do not say so. */
export function withOdd(heat: Heat, rank: number): Heat {
  const at = heat.rows.findIndex((row) => row.rank === rank);
  const own = heat.means[at] ?? null;
  const usual = median(heat.means.filter((_, i) => i !== at));
  return heat.odd !== null || own === null || usual === null ? heat : { ...heat, odd: { rank, mean: own, usual } };
}

function oddOf(rows: HeatRow[], means: (number | null)[]): Heat["odd"] {
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
