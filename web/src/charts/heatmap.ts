// Draws a heat map on a canvas. The scale (after cividis) reads the same for colour-blind eyes and in grey.

import type { Heat } from "../state/heat";
import { median } from "../state/load";
import { elapsedTicks } from "../lib/ticks";
import { palette } from "./palette";

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
const SEEN_PX = 4;

export interface HeatLayout {
  left: number;
  width: number;
  rowHeight: number;
  height: number;
}

export function heatLayout(rows: number, width: number): HeatLayout {
  const room = HIGHEST_PX / Math.max(1, rows);
  const most = Math.max(ROW_PX, Math.min(HIGHEST_ROW_PX, FEW_ROWS_PX / Math.max(1, rows)));
  const rowHeight = room >= 1 ? Math.floor(Math.min(most, room)) : room;
  const beside = LABEL_PX + (width > WIDE_PX ? MEANS_PX : 0);
  return { left: LABEL_PX, width: Math.max(1, width - beside), rowHeight, height: Math.round(rows * rowHeight) + AXIS_PX };
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

export function paintHeat(canvas: HTMLCanvasElement, heat: Heat, layout: HeatLayout, pointed: Cell | null, text: (value: number) => string): void {
  const ratio = devicePixelRatio;
  const room = Math.max(canvas.clientWidth, layout.left + layout.width);
  canvas.width = Math.round(room * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const ctx = canvas.getContext("2d");
  if (ctx === null) return;
  ctx.scale(ratio, ratio);
  const picture = pixels(heat, Math.ceil(heat.rows.length * layout.rowHeight * ratio));
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(picture, layout.left, 0, layout.width, heat.rows.length * layout.rowHeight);
  paintGone(ctx, heat, layout);
  paintOdd(ctx, heat, layout);
  paintLabels(ctx, heat, layout);
  if (room > WIDE_PX) paintMeans(ctx, heat, layout, text);
  if (pointed !== null) paintPointed(ctx, heat, layout, pointed);
}

/** Rows of processes that have gone end where they did; among very many they are drawn larger than they are. */
function paintGone(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout): void {
  if (layout.rowHeight >= SEEN_PX) return;
  heat.rows.forEach((row, i) => {
    const cells = heat.cells[i];
    if (row.isGone !== true || cells === undefined) return;
    const y = (i + 0.5) * layout.rowHeight - SEEN_PX / 2;
    ctx.fillStyle = palette().critical;
    ctx.fillRect(layout.left, y, layout.width, SEEN_PX);
    ctx.drawImage(pixels({ ...heat, cells: [cells] }, 1), layout.left, y, layout.width, SEEN_PX);
  });
}

/** Among very many rows the odd one is drawn larger than it is, or nobody would see it. */
function paintOdd(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout): void {
  const odd = heat.rows.findIndex((row) => row.rank === heat.odd?.rank);
  const cells = heat.cells[odd];
  if (cells === undefined || layout.rowHeight >= SEEN_PX) return;
  const y = (odd + 0.5) * layout.rowHeight - SEEN_PX / 2;
  ctx.drawImage(pixels({ ...heat, cells: [cells] }, 1), layout.left, y, layout.width, SEEN_PX);
}

/** The row's edges and the cell's frame, in a colour that stands out from the scale. */
function paintPointed(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, { row, column }: Cell): void {
  const columns = heat.cells[0]?.length ?? 1;
  const width = layout.width / columns;
  const x = layout.left + column * width;
  const y = row * layout.rowHeight;
  ctx.strokeStyle = palette().text;
  ctx.lineWidth = 1;
  ctx.strokeRect(layout.left - 0.5, y - 0.5, layout.width, Math.max(2, layout.rowHeight) + 1);
  ctx.lineWidth = 2;
  ctx.strokeRect(x - 1, y - 1, Math.max(3, width) + 2, Math.max(3, layout.rowHeight) + 2);
}

/** One pixel a cell; the canvas stretches it. Where rows share a line, the one that differs most is seen. */
function pixels(heat: Heat, lines: number): HTMLCanvasElement {
  const picture = document.createElement("canvas");
  const columns = heat.cells[0]?.length ?? 0;
  const rows = sharedLines(heat.cells, lines);
  picture.width = Math.max(1, columns);
  picture.height = Math.max(1, rows.length);
  const ctx = picture.getContext("2d");
  if (ctx === null) return picture;
  const image = ctx.createImageData(picture.width, picture.height);
  const span = heat.high - heat.low || 1;
  rows.forEach((line, y) =>
    line.forEach((value, x) => {
      if (value === null) return;
      image.data.set([...heatColor((value - heat.low) / span), 255], (y * picture.width + x) * 4);
    }),
  );
  ctx.putImageData(image, 0, 0);
  return picture;
}

/** At most so many lines of cells; of rows that fall together each column keeps the value farthest from their neighbours'. */
export function sharedLines(cells: (number | null)[][], lines: number): (number | null)[][] {
  if (cells.length <= lines) return cells;
  const columns = cells[0]?.length ?? 0;
  const usual = Array.from({ length: columns }, (_, x) => median(cells.map((row) => row[x])));
  return Array.from({ length: lines }, (_, line) => {
    const group = cells.slice(Math.floor((line * cells.length) / lines), Math.max(1, Math.floor(((line + 1) * cells.length) / lines)));
    return usual.map((middle, x) => farthest(group.map((row) => row[x] ?? null), middle));
  });
}

function farthest(values: (number | null)[], from: number | null): number | null {
  const distance = (value: number | null) => (value === null || from === null ? -1 : Math.abs(value - from));
  return values.reduce((far, value) => (distance(value) > distance(far) ? value : far), null);
}

function paintLabels(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout): void {
  const colors = palette();
  const bottom = heat.rows.length * layout.rowHeight;
  ctx.font = colors.font;
  ctx.fillStyle = colors.muted;
  ctx.textBaseline = "middle";
  const odd = heat.rows.findIndex((row) => row.rank === heat.odd?.rank);
  const middle = (i: number) => Math.min(bottom - LINE_PX / 2, Math.max(LINE_PX / 2, (i + 0.5) * layout.rowHeight));
  const marked = heat.rows.flatMap((row, i) => (i === odd || row.isGone === true ? [i] : []));
  const kept = [...(odd >= 0 ? [odd] : []), ...marked].reduce<number[]>((all, i) => (all.some((other) => Math.abs(middle(other) - middle(i)) < LINE_PX) ? all : [...all, i]), []);
  let free = 0;
  heat.rows.forEach((row, i) => {
    const y = middle(i);
    if (y - LINE_PX / 2 < free || kept.some((other) => Math.abs(y - middle(other)) < LINE_PX)) return;
    ctx.fillText(`rank ${row.rank}`, 0, y);
    free = y + LINE_PX / 2;
  });
  ctx.fillStyle = colors.critical;
  for (const i of kept) if (i !== odd) ctx.fillText(`✕ rank ${heat.rows[i]?.rank ?? ""}`, 0, middle(i));
  ctx.fillStyle = colors.muted;
  if (odd >= 0) {
    ctx.fillStyle = colors.text;
    ctx.fillText(`▸ rank ${heat.rows[odd]?.rank ?? ""}`, 0, middle(odd));
    ctx.fillStyle = colors.muted;
  }
  paintAxis(ctx, heat, layout, bottom);
}

/** As many moments as have room, each under its place. */
function paintAxis(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, bottom: number): void {
  const gaps = Math.max(1, Math.min(8, Math.floor(layout.width / TICK_PX)));
  ctx.textBaseline = "bottom";
  const step = (heat.to - heat.from) / gaps;
  const labels = elapsedTicks(Array.from({ length: gaps + 1 }, (_, i) => heat.from + i * step), step);
  for (let i = 0; i <= gaps; i++) {
    ctx.textAlign = i === 0 ? "left" : i === gaps ? "right" : "center";
    ctx.fillText(labels[i] ?? "", layout.left + (layout.width * i) / gaps, bottom + AXIS_PX - 2);
  }
}

/** A bar a row from nothing to its mean: the row that is different ends elsewhere. */
function paintMeans(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, text: (value: number) => string): void {
  const colors = palette();
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
