// What uPlot wants: one x column, ascending, and columns beside it; `undefined` where a line has no such x, `null` for a gap.

import type { Entries, Mark } from "../state/columns";

export type Column = (number | null | undefined)[];

export interface Line {
  /** Stable: the same line keeps it while data flow. */
  key: string;
  label: string;
  values: Column;
  /** Index in the palette. */
  color: number;
  width: number;
  /** 0 to 1. */
  alpha: number;
  dashed?: boolean;
}

export interface Picture {
  x: number[];
  lines: Line[];
  /** Low and high of the band, drawn behind the lines, or null. */
  band: { low: Column; high: Column; color: number } | null;
  marks: Mark[];
  log: boolean;
}

/** Non-finite values are gaps; on a log scale what is not positive is one as well. */
export function drawable(values: readonly (number | null | undefined)[], log: boolean): Column {
  return values.map((value) => {
    if (value === undefined) return undefined;
    return value === null || !Number.isFinite(value) || (log && value <= 0) ? null : value;
  });
}

/** Puts columns with their own x on one common x. */
export function aligned(columns: { x: number[]; values: Column }[]): { x: number[]; values: Column[] } {
  const all = new Set<number>();
  for (const column of columns) for (const x of column.x) all.add(x);
  const x = [...all].sort((a, b) => a - b);
  const place = new Map(x.map((value, i) => [value, i]));
  const values = columns.map((column) => {
    const out: Column = new Array(x.length).fill(undefined);
    column.x.forEach((value, i) => {
      const at = place.get(value);
      if (at !== undefined) out[at] = column.values[i];
    });
    return out;
  });
  return { x, values };
}

/** Lowest and highest finite value of all lines within `[from, to]`, or null when there is none. */
export function extent(picture: Picture, from: number, to: number): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  const columns = picture.lines.map((line) => line.values);
  if (picture.band !== null) columns.push(picture.band.low, picture.band.high);
  for (const column of columns) {
    for (let i = 0; i < picture.x.length; i++) {
      const value = column[i];
      const x = picture.x[i] ?? 0;
      if (value === null || value === undefined || x < from || x > to) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** The extent with air around it; a flat line sits in the middle. */
export function padded([low, high]: [number, number], log: boolean): [number, number] {
  if (log) return [low / 1.15, high * 1.15];
  if (low === high) {
    const air = low === 0 ? 1 : Math.abs(low) * 0.1;
    return [low - air, high + air];
  }
  const air = (high - low) * 0.08;
  return [low - air, high + air];
}

/** What y shows: what is set, else the finite values in view with air around them. */
export function yRangeOf(picture: Picture, { range, yRange }: { range: readonly [number, number]; yRange: readonly [number, number] | null }): [number, number] {
  if (yRange !== null) return [yRange[0], yRange[1]];
  const found = extent(picture, range[0], range[1]);
  return found === null ? (picture.log ? [0.1, 1] : [0, 1]) : padded(found, picture.log);
}

/** Indices of points with no drawn neighbour on either side: a line would not show them. */
export function isolated(values: Column, from: number, to: number): number[] {
  const out: number[] = [];
  let before: number | null | undefined = null;
  let at = -1;
  let isAlone = false;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value === undefined) continue;
    if (value === null) {
      if (isAlone) out.push(at);
      isAlone = false;
    } else {
      isAlone = before === null;
      at = i;
    }
    before = value;
  }
  if (isAlone) out.push(at);
  return out.filter((i) => i >= from && i <= to);
}

/** A curve's entries as a picture of its mean and band. */
export function pictureOf(entries: Entries, marks: Mark[], label: string, options: PictureOptions): Picture {
  const { log, band, color } = options;
  const hasBand = band && entries.count.some((count) => count > 1);
  const mean = drawable(entries.mean, log);
  return {
    x: entries.x,
    lines: [{ key: "mean", label, values: mean, color, width: 1.6, alpha: 1 }],
    band: hasBand ? { low: drawable(entries.min, log), high: drawable(entries.max, log), color } : null,
    marks,
    log,
  };
}

export interface PictureOptions {
  log: boolean;
  band: boolean;
  color: number;
}
