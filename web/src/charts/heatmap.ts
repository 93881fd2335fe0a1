// Draws a heat map on a canvas. The scale (after cividis) reads the same for colour-blind eyes and in grey.

import { hostBands, middle, type Heat } from "../state/heat";
import type { Ticks } from "../lib/ticks";
import type { Palette } from "./palette";

const STOPS = ["#00224e", "#34456b", "#666970", "#958f78", "#cbba69", "#fee838"].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
const LABEL_PX = 76;
const AXIS_PX = 20;
const HIGHEST_PX = 560;
const ROW_PX = 18;
const FEW_ROWS_PX = 150;
const HIGHEST_ROW_PX = 32;
const TICK_PX = 130;
/** Beside the map each row's mean has so much room, where the map is so wide. */
const MEANS_PX = 132;
const WIDE_PX = 560;
const FIGURE_PX = 56;
const LINE_PX = 13;
const LABELLED_PX = 11;
const HOST_PX = 96;
/** A host of fewer pixels is not set apart from the next. */
const SEAM_PX = 16;
const SEEN_PX = 4;

export interface HeatLayout {
  /** Where names of hosts end and those of ranks begin; 0: there is no room for hosts, or there is one. */
  hosts: number;
  left: number;
  width: number;
  rowHeight: number;
  height: number;
}

/** @param room Height of the window: a map of very many rows takes about half of it. */
export function heatLayout(rows: number, width: number, hasHosts: boolean, room: number): HeatLayout {
  const highest = Math.min(Math.max(HIGHEST_PX, room * 0.5), Math.max(HIGHEST_PX, rows));
  const each = highest / Math.max(1, rows);
  const most = Math.max(ROW_PX, Math.min(HIGHEST_ROW_PX, FEW_ROWS_PX / Math.max(1, rows)));
  const rowHeight = each >= 1 ? Math.floor(Math.min(most, each)) : each;
  const isWide = width > WIDE_PX;
  const hosts = hasHosts && isWide ? HOST_PX : 0;
  const left = hosts + LABEL_PX;
  return { hosts, left, width: Math.max(1, width - left - (isWide ? MEANS_PX : 0)), rowHeight, height: Math.round(rows * rowHeight) + AXIS_PX };
}

/** Where a cell lies on the canvas. */
export function placeOf({ row, column }: Cell, heat: Heat, layout: HeatLayout): { x: number; y: number; width: number; height: number } {
  const width = layout.width / (heat.cells[0]?.length ?? 1);
  return { x: layout.left + column * width, y: row * layout.rowHeight, width, height: layout.rowHeight };
}

/** A colour of the scale; `share` 0 to 1. */
export function heatColor(share: number): [number, number, number] {
  const place = Math.min(1, Math.max(0, share)) * (STOPS.length - 1);
  const low = STOPS[Math.floor(place)] ?? [0, 0, 0];
  const high = STOPS[Math.ceil(place)] ?? low;
  const part = place - Math.floor(place);
  const mix = (i: number) => Math.round((low[i] ?? 0) + ((high[i] ?? 0) - (low[i] ?? 0)) * part);
  return [mix(0), mix(1), mix(2)];
}

export interface Cell {
  row: number;
  column: number;
}

/** The cell under a point of the canvas, or null beside them. */
export function cellAt(heat: Heat, layout: HeatLayout, x: number, y: number): Cell | null {
  const columns = heat.cells[0]?.length ?? 1;
  const row = Math.floor(y / layout.rowHeight);
  const column = Math.floor(((x - layout.left) / layout.width) * columns);
  return row >= 0 && row < heat.rows.length && column >= 0 && column < columns ? { row, column } : null;
}

/** Where an arrow key leads from a cell; from none, into the first that is seen. Null for other keys. */
export function cellBy(key: string, from: Cell | null, heat: Heat): Cell | null {
  const columns = heat.cells[0]?.length ?? 1;
  const steps: Record<string, [number, number]> = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -columns], End: [0, columns],
  };
  const step = steps[key];
  if (step === undefined) return null;
  const odd = heat.rows.findIndex((row) => row.rank === heat.odd?.rank);
  if (from === null) return { row: Math.max(0, odd), column: columns - 1 };
  const clamp = (value: number, most: number) => Math.min(most - 1, Math.max(0, value));
  return { row: clamp(from.row + step[0], heat.rows.length), column: clamp(from.column + step[1], columns) };
}

export interface Manner {
  colors: Palette;
  /** Labels of moments of the time axis, seconds since start. */
  xTicks: Ticks;
  text(value: number): string;
}

export function paintHeat(canvas: HTMLCanvasElement, heat: Heat, layout: HeatLayout, { colors, xTicks, text }: Manner): void {
  const ratio = devicePixelRatio;
  const room = Math.max(canvas.clientWidth, layout.left + layout.width);
  canvas.width = Math.round(room * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const ctx = canvas.getContext("2d");
  if (ctx === null) return;
  ctx.scale(ratio, ratio);
  paintNothing(ctx, heat, layout, colors);
  const picture = pixels(heat, sharedLines(heat.cells, Math.ceil(heat.rows.length * layout.rowHeight * ratio)));
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(picture, layout.left, 0, layout.width, heat.rows.length * layout.rowHeight);
  const bands = hostBands(heat.rows);
  paintSeams(ctx, layout, bands);
  paintStanding(ctx, heat, layout, colors);
  paintHosts(ctx, layout, bands, colors);
  paintLabels(ctx, heat, layout, colors, bands.length > 0, xTicks);
  if (room > WIDE_PX) paintMeans(ctx, heat, layout, colors, text);
}

/** Where nothing was measured there is no colour of the scale but stripes; red ones of a process that has gone. */
function paintNothing(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, colors: Palette): void {
  ctx.fillStyle = stripes(ctx, colors.muted, 0.3);
  ctx.fillRect(layout.left, 0, layout.width, heat.rows.length * layout.rowHeight);
  const gone = stripes(ctx, colors.critical, 0.8);
  heat.rows.forEach((row, i) => {
    if (row.isGone !== true || layout.rowHeight < SEEN_PX) return;
    ctx.clearRect(layout.left, i * layout.rowHeight, layout.width, layout.rowHeight);
    ctx.fillStyle = gone;
    ctx.fillRect(layout.left, i * layout.rowHeight, layout.width, layout.rowHeight);
  });
}

const STRIPE_PX = 6;

function stripes(ctx: CanvasRenderingContext2D, color: string, alpha: number): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = STRIPE_PX;
  const pen = tile.getContext("2d");
  if (pen === null) return color;
  pen.globalAlpha = alpha;
  pen.strokeStyle = color;
  for (const shift of [-STRIPE_PX, 0, STRIPE_PX]) {
    pen.moveTo(shift, STRIPE_PX);
    pen.lineTo(shift + STRIPE_PX, 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, "repeat") ?? color;
}

/** Among very many rows the odd one, and those of processes that have gone, are drawn larger than they are, or nobody would see them. */
function paintStanding(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, colors: Palette): void {
  if (layout.rowHeight >= SEEN_PX) return;
  heat.rows.forEach((row, i) => {
    const cells = heat.cells[i];
    const isOdd = row.rank === heat.odd?.rank;
    if (cells === undefined || !(isOdd || row.isGone === true)) return;
    const y = (i + 0.5) * layout.rowHeight - SEEN_PX / 2;
    if (!isOdd) {
      ctx.fillStyle = colors.critical;
      ctx.fillRect(layout.left, y, layout.width, SEEN_PX);
    }
    ctx.drawImage(pixels(heat, [cells]), layout.left, y, layout.width, SEEN_PX);
  });
}

type Band = ReturnType<typeof hostBands>[number];

/** Hosts stand apart where there is room for it. */
function paintSeams(ctx: CanvasRenderingContext2D, layout: HeatLayout, bands: Band[]): void {
  for (const { first, count } of bands) {
    if (first > 0 && count * layout.rowHeight >= SEAM_PX) ctx.clearRect(layout.left, first * layout.rowHeight - 0.5, layout.width, 1);
  }
}

/** A bracket for each host, with its name where that fits. */
function paintHosts(ctx: CanvasRenderingContext2D, layout: HeatLayout, bands: Band[], colors: Palette): void {
  if (layout.hosts === 0) return;
  ctx.font = colors.font;
  ctx.textBaseline = "middle";
  let free = 0;
  bands.forEach(({ host, first, count }, i) => {
    const [top, high] = [first * layout.rowHeight, count * layout.rowHeight];
    ctx.fillStyle = colors.muted;
    ctx.globalAlpha = i % 2 === 0 ? 0.75 : 0.35;
    ctx.fillRect(layout.hosts - 9, top + Math.min(1, high / 4), 3, high - Math.min(2, high / 2));
    ctx.globalAlpha = 1;
    const y = Math.max(LINE_PX / 2, top + Math.min(high, layout.rowHeight) / 2);
    if (y - LINE_PX / 2 < free) return;
    ctx.fillText(fitted(ctx, host, layout.hosts - 16), 0, y);
    free = y + LINE_PX / 2;
  });
}

/** The end of a host's name tells hosts apart. */
function fitted(ctx: CanvasRenderingContext2D, name: string, width: number): string {
  if (ctx.measureText(name).width <= width) return name;
  let from = 1;
  while (from < name.length && ctx.measureText(`…${name.slice(from)}`).width > width) from += 1;
  return `…${name.slice(from)}`;
}

const SHADES = 256;
let shades: Uint32Array | null = null;

/** The scale's colours as the pixels of an image hold them. */
function scale(): Uint32Array {
  shades ??= Uint32Array.from({ length: SHADES }, (_, i) => {
    const [red, green, blue] = heatColor(i / (SHADES - 1));
    return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0] ?? 0;
  });
  return shades;
}

/** One pixel a cell; the canvas stretches it. */
function pixels(heat: Heat, rows: ArrayLike<number>[]): HTMLCanvasElement {
  const picture = document.createElement("canvas");
  const columns = heat.cells[0]?.length ?? 0;
  picture.width = Math.max(1, columns);
  picture.height = Math.max(1, rows.length);
  const ctx = picture.getContext("2d");
  if (ctx === null) return picture;
  const image = ctx.createImageData(picture.width, picture.height);
  const out = new Uint32Array(image.data.buffer);
  const colors = scale();
  const steps = (SHADES - 1) / (heat.high - heat.low || 1);
  rows.forEach((line, y) => {
    for (let x = 0; x < columns; x++) {
      const value = line[x] ?? NaN;
      if (!Number.isNaN(value)) out[y * columns + x] = colors[Math.max(0, Math.min(SHADES - 1, Math.round((value - heat.low) * steps)))] ?? 0;
    }
  });
  ctx.putImageData(image, 0, 0);
  return picture;
}

/** So many rows tell what is usual in a column. */
const TELLING_ROWS = 64;

/** At most so many lines of cells; of rows that fall together each column keeps the value farthest from what is usual in it. */
export function sharedLines(cells: Float64Array[], lines: number): Float64Array[] {
  if (cells.length <= lines) return cells;
  const step = Math.max(1, Math.floor(cells.length / TELLING_ROWS));
  const some = cells.filter((_, i) => i % step === 0);
  const usual = Float64Array.from(cells[0] ?? [], (_, x) => middle(some.map((row) => row[x])) ?? NaN);
  return Array.from({ length: lines }, (_, line) => {
    const [first = new Float64Array(), ...others] = cells.slice(Math.floor((line * cells.length) / lines), Math.max(1, Math.floor(((line + 1) * cells.length) / lines)));
    const far = Float64Array.from(first);
    for (const row of others) {
      for (let x = 0; x < far.length; x++) {
        const [value, kept, normal] = [row[x] ?? NaN, far[x] ?? NaN, usual[x] ?? NaN];
        if (Number.isNaN(kept) || Math.abs(value - normal) > Math.abs(kept - normal)) far[x] = value;
      }
    }
    return far;
  });
}

function paintLabels(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, colors: Palette, hasHosts: boolean, xTicks: Ticks): void {
  const bottom = heat.rows.length * layout.rowHeight;
  ctx.font = colors.font;
  ctx.fillStyle = colors.muted;
  ctx.textBaseline = "middle";
  const odd = heat.rows.findIndex((row) => row.rank === heat.odd?.rank);
  const centre = (i: number) => Math.min(bottom - LINE_PX / 2, Math.max(LINE_PX / 2, (i + 0.5) * layout.rowHeight));
  const marked = heat.rows.flatMap((row, i) => (i === odd || row.isGone === true ? [i] : []));
  const kept = [...(odd >= 0 ? [odd] : []), ...marked].reduce<number[]>((all, i) => (all.some((other) => Math.abs(centre(other) - centre(i)) < LINE_PX) ? all : [...all, i]), []);
  let free = 0;
  heat.rows.forEach((row, i) => {
    const y = centre(i);
    // Where not every row has room for its name, hosts are what one looks for.
    if (hasHosts && layout.hosts > 0 && layout.rowHeight < LABELLED_PX) return;
    if (y - LINE_PX / 2 < free || kept.some((other) => Math.abs(y - centre(other)) < LINE_PX)) return;
    ctx.fillText(`rank ${row.rank}`, layout.hosts, y);
    free = y + LINE_PX / 2;
  });
  ctx.fillStyle = colors.critical;
  for (const i of kept) if (i !== odd) ctx.fillText(`✕ rank ${heat.rows[i]?.rank ?? ""}`, layout.hosts, centre(i));
  ctx.fillStyle = colors.muted;
  if (odd >= 0) {
    ctx.fillStyle = colors.text;
    ctx.fillText(`▸ rank ${heat.rows[odd]?.rank ?? ""}`, layout.hosts, centre(odd));
    ctx.fillStyle = colors.muted;
  }
  paintAxis(ctx, heat, layout, bottom, xTicks);
}

/** As many moments as have room, each under its place. */
function paintAxis(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, bottom: number, xTicks: Ticks): void {
  const gaps = Math.max(1, Math.min(8, Math.floor(layout.width / TICK_PX)));
  ctx.textBaseline = "bottom";
  const step = (heat.to - heat.from) / gaps;
  const labels = xTicks(Array.from({ length: gaps + 1 }, (_, i) => heat.from + i * step), step);
  for (let i = 0; i <= gaps; i++) {
    ctx.textAlign = i === 0 ? "left" : i === gaps ? "right" : "center";
    ctx.fillText(labels[i] ?? "", layout.left + (layout.width * i) / gaps, bottom + AXIS_PX - 2);
  }
}

/** A bar a row from nothing to its mean: the row that is different ends elsewhere. */
function paintMeans(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, colors: Palette, text: (value: number) => string): void {
  const left = layout.left + layout.width + 10;
  const most = Math.max(...heat.means.map((value) => Math.abs(value ?? 0))) || 1;
  const hasText = layout.rowHeight >= LINE_PX;
  const odd = heat.rows.findIndex((row) => row.rank === heat.odd?.rank);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const paint = (value: number | null, i: number) => {
    if (value === null) return;
    const isOdd = i === odd;
    const long = Math.max(1, (Math.abs(value) / most) * (MEANS_PX - 10 - FIGURE_PX));
    const high = Math.max(isOdd ? SEEN_PX : 1, Math.min(12, layout.rowHeight - (hasText ? 6 : 0)));
    const y = (i + 0.5) * layout.rowHeight;
    ctx.fillStyle = isOdd ? colors.text : colors.muted;
    ctx.globalAlpha = isOdd ? 1 : 0.55;
    ctx.fillRect(left, y - high / 2, long, high);
    ctx.globalAlpha = 1;
    if (hasText) ctx.fillText(text(value), left + long + 6, y);
  };
  heat.means.forEach((value, i) => i !== odd && paint(value, i));
  if (odd >= 0) paint(heat.means[odd] ?? null, odd);
  ctx.fillStyle = colors.muted;
  ctx.textBaseline = "bottom";
  ctx.fillText("mean", left, layout.height - 2);
}
