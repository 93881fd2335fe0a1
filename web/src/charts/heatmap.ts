// Draws a heat map on a canvas. The scale (after cividis) reads the same for colour-blind eyes and in grey.

import type { Heat } from "../state/heat";
import { palette } from "./palette";

const STOPS = ["#00224e", "#34456b", "#666970", "#958f78", "#cbba69", "#fee838"].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
const LABEL_PX = 62;
const AXIS_PX = 20;
const LABEL_ROWS = 64;

export interface HeatLayout {
  left: number;
  width: number;
  rowHeight: number;
  height: number;
}

export function heatLayout(rows: number, width: number): HeatLayout {
  const rowHeight = Math.max(1, Math.min(18, Math.floor(560 / Math.max(1, rows))));
  const left = rows <= LABEL_ROWS ? LABEL_PX : 0;
  return { left, width: Math.max(1, width - left), rowHeight, height: rows * rowHeight + AXIS_PX };
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

export function paintHeat(canvas: HTMLCanvasElement, heat: Heat, layout: HeatLayout, xText: (x: number) => string): void {
  const ratio = devicePixelRatio;
  canvas.width = Math.round((layout.left + layout.width) * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const ctx = canvas.getContext("2d");
  if (ctx === null) return;
  ctx.scale(ratio, ratio);
  const picture = pixels(heat);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(picture, layout.left, 0, layout.width, heat.rows.length * layout.rowHeight);
  paintLabels(ctx, heat, layout, xText);
}

/** One pixel a cell; the canvas stretches it. */
function pixels(heat: Heat): HTMLCanvasElement {
  const picture = document.createElement("canvas");
  const columns = heat.cells[0]?.length ?? 0;
  picture.width = Math.max(1, columns);
  picture.height = Math.max(1, heat.rows.length);
  const ctx = picture.getContext("2d");
  if (ctx === null) return picture;
  const image = ctx.createImageData(picture.width, picture.height);
  const span = heat.high - heat.low || 1;
  heat.cells.forEach((line, y) =>
    line.forEach((value, x) => {
      if (value === null) return;
      image.data.set([...heatColor((value - heat.low) / span), 255], (y * picture.width + x) * 4);
    }),
  );
  ctx.putImageData(image, 0, 0);
  return picture;
}

function paintLabels(ctx: CanvasRenderingContext2D, heat: Heat, layout: HeatLayout, xText: (x: number) => string): void {
  const colors = palette();
  const bottom = heat.rows.length * layout.rowHeight;
  ctx.font = colors.font;
  ctx.fillStyle = colors.muted;
  ctx.textBaseline = "middle";
  if (layout.left > 0) {
    const stride = Math.ceil(13 / layout.rowHeight);
    heat.rows.forEach((row, i) => {
      if (i % stride === 0) ctx.fillText(`rank ${row.rank}`, 0, (i + 0.5) * layout.rowHeight);
    });
  }
  ctx.textBaseline = "bottom";
  ctx.fillText(xText(heat.from), layout.left, bottom + AXIS_PX - 2);
  ctx.textAlign = "right";
  ctx.fillText(xText(heat.to), layout.left + layout.width, bottom + AXIS_PX - 2);
}
