// Rank × time for one gauge: one glance shows the row that is different.

/** Of those that are known; this stands in a script of its own, which shares nothing with the page's. */
export function middle(values: ArrayLike<number | null | undefined>): number | null {
  const known = Array.from(values).filter((value): value is number => value !== null && value !== undefined && Number.isFinite(value));
  known.sort((a, b) => a - b);
  return known[Math.floor((known.length - 1) / 2)] ?? null;
}

function mean(values: readonly number[]): number | null {
  const known = values.filter((value) => Number.isFinite(value));
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}

export interface HeatRow {
  rank: number;
  path: string;
  host?: string | null;
  x: readonly number[];
  /** Null and NaN: unknown. */
  values: ArrayLike<number | null>;
  /** Whether its process has gone. */
  isGone?: boolean;
  /** Where each value's span began, when it holds for a span and not for a moment. */
  from?: readonly number[];
}

export interface Heat {
  rows: HeatRow[];
  /** One line of cells a row; NaN where nothing was measured. */
  cells: Float64Array[];
  /** What the ends of the colour scale stand for, and whether there are values beyond them. */
  low: number;
  high: number;
  isBelow: boolean;
  isAbove: boolean;
  from: number;
  to: number;
  /** Of each row over the whole time, without moments that were unusual for all. */
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
/** So many rows tell what is usual in a column, so many cells what a scale must span. */
const TELLING_ROWS = 64;
const TELLING_CELLS = 20_000;
/** A column in which all ranks took so many times as long as usual, such as the first step, tells nothing of them. */
const UNUSUAL_RATIO = 3;

/** Means of equal spans of x, at most `columns` of them. Null when there is no value at all. `isLess`: less is the worse. */
export function heatOf(rows: HeatRow[], columns: number, isLess = false): Heat | null {
  let [from, to, longest] = [Infinity, -Infinity, 0];
  for (const row of rows) {
    if (row.x.length === 0) continue;
    from = Math.min(from, row.from?.[0] ?? row.x[0] ?? Infinity);
    to = Math.max(to, row.x[row.x.length - 1] ?? -Infinity);
    longest = Math.max(longest, row.x.length * (row.from === undefined ? 1 : FINER));
  }
  if (!(from <= to)) return null;
  const count = Math.max(1, Math.min(columns, longest));
  const into = sharedBins(from, to, count);
  const cells = rows.map((row) => binned(row, into(row), count));
  const typical = typicalColumns(cells, count);
  const means = cells.map((line) => meanOf(line, typical));
  const odd = means.filter((value) => value !== null).length === 2 ? oddOfTwo(rows, cells, typical, isLess) : oddOf(rows, means);
  const scale = scaleOf(cells, typical, odd);
  return scale === null ? null : { rows, cells, means, ...scale, from, to, odd };
}

/** Which cells each value of a row counts for, and how much. */
interface Bins {
  value: number[];
  cell: number[];
  weight: number[];
}

/** Rows that share their x, as the ranks of a job do, share what follows from it. */
function sharedBins(from: number, to: number, count: number): (row: HeatRow) => Bins {
  const known = new Map<readonly number[], Bins>();
  return (row) => {
    let bins = known.get(row.x);
    if (bins === undefined) known.set(row.x, (bins = binsOf(row, from, (to - from || 1) / count, count)));
    return bins;
  };
}

/** A value that holds for a span counts in each cell as long as it held there; one of a moment counts in one. */
function binsOf(row: HeatRow, from: number, width: number, count: number): Bins {
  const bins: Bins = { value: [], cell: [], weight: [] };
  const place = (x: number) => Math.min(count - 1, Math.max(0, x));
  row.x.forEach((end, i) => {
    const begin = Math.min(row.from?.[i] ?? end, end);
    const first = place(Math.floor((begin - from) / width));
    const last = row.from === undefined ? first : Math.min(count - 1, Math.max(first, Math.ceil((end - from) / width) - 1));
    for (let cell = first; cell <= last; cell++) {
      const overlap = Math.min(end, from + (cell + 1) * width) - Math.max(begin, from + cell * width);
      bins.value.push(i);
      bins.cell.push(cell);
      bins.weight.push(row.from === undefined ? 1 : Math.max(overlap, width * 1e-6));
    }
  });
  return bins;
}

function binned(row: HeatRow, { value: places, cell, weight }: Bins, count: number): Float64Array {
  const sums = new Float64Array(count);
  const weights = new Float64Array(count);
  for (let i = 0; i < places.length; i++) {
    const value = row.values[places[i] ?? -1] ?? NaN;
    const at = cell[i] ?? 0;
    const much = weight[i] ?? 0;
    if (!Number.isFinite(value)) continue;
    sums[at] = (sums[at] ?? 0) + value * much;
    weights[at] = (weights[at] ?? 0) + much;
  }
  return sums.map((sum, i) => sum / (weights[i] ?? 0)); // 0 / 0: nothing was measured
}

/** Columns that are not far above the usual for everybody. */
function typicalColumns(cells: Float64Array[], count: number): number[] {
  const step = Math.max(1, Math.floor(cells.length / TELLING_ROWS));
  const some = cells.filter((_, i) => i % step === 0);
  const medians = Array.from({ length: count }, (_, column) => middle(some.map((line) => line[column])));
  const usual = middle(medians) ?? 0;
  return [...medians.keys()].filter((column) => !(Math.abs(medians[column] ?? 0) > Math.abs(usual) * UNUSUAL_RATIO) || usual === 0);
}

function meanOf(line: Float64Array, columns: number[]): number | null {
  let [sum, count] = [0, 0];
  for (const column of columns) {
    const value = line[column] ?? NaN;
    if (Number.isNaN(value)) continue;
    sum += value;
    count += 1;
  }
  return count > 0 ? sum / count : mean([...line]);
}

/** Nearly all values of typical moments, the odd row's too; wide enough that mere noise does not look like a difference. */
function scaleOf(cells: Float64Array[], typical: number[], odd: Heat["odd"]): Pick<Heat, "low" | "high" | "isBelow" | "isAbove"> | null {
  const stride = Math.max(1, Math.floor((cells.length * typical.length) / TELLING_CELLS));
  const known: number[] = [];
  let [least, most, seen] = [Infinity, -Infinity, 0];
  for (const line of cells) {
    for (const value of line) {
      if (value < least) least = value;
      if (value > most) most = value;
    }
    for (const column of typical) {
      const value = line[column] ?? NaN;
      if (seen++ % stride === 0 && !Number.isNaN(value)) known.push(value);
    }
  }
  if (!(least <= most)) return null;
  if (known.length === 0) known.push(least, most);
  known.sort((a, b) => a - b);
  const at = (share: number) => known[Math.round(share * (known.length - 1))] ?? 0;
  const low = Math.min(at(0.01), odd?.mean ?? Infinity);
  const wide = Math.max(at(0.99), odd?.mean ?? -Infinity);
  const high = Math.max(wide, low + Math.abs(at(0.5)) * LEAST_SPAN);
  const slack = (high - low) * 0.05;
  return { low, high, isBelow: least < low - slack, isAbove: most > high + slack };
}

/** Of two rows the worse one, where it is worse nearly all the time. */
function oddOfTwo(rows: HeatRow[], cells: Float64Array[], typical: number[], isLess: boolean): Heat["odd"] {
  const [a = -1, b = -1] = cells.flatMap((line, i) => (line.some((value) => !Number.isNaN(value)) ? [i] : []));
  const pairs = typical.flatMap((column) => {
    const [left, right] = [cells[a]?.[column] ?? NaN, cells[b]?.[column] ?? NaN];
    return Number.isNaN(left + right) ? [] : [[left, right] as const];
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
  const usual = middle(heat.means.filter((_, i) => i !== at));
  return heat.odd !== null || own === null || usual === null ? heat : { ...heat, odd: { rank, mean: own, usual } };
}

function oddOf(rows: HeatRow[], means: (number | null)[]): Heat["odd"] {
  const usual = middle(means);
  if (usual === null || means.filter((value) => value !== null).length < FEW) return null;
  const deviation = middle(means.map((value) => (value === null ? null : Math.abs(value - usual)))) ?? 0;
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

/** Rows of one host, in the order they stand; none where all are on one host. */
export function hostBands(rows: readonly HeatRow[]): { host: string; first: number; count: number }[] {
  const bands: { host: string; first: number; count: number }[] = [];
  rows.forEach(({ host }, i) => {
    const last = bands[bands.length - 1];
    if (last !== undefined && last.host === (host ?? "")) last.count += 1;
    else bands.push({ host: host ?? "", first: i, count: 1 });
  });
  return bands.length > 1 ? bands : [];
}
