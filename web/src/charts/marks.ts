// Marks over a chart: what is not finite stays visible where it occurred, and the moment a link points to.

import type uPlot from "uplot";
import type { Mark } from "../state/columns";
import type { Place } from "../state/resumes";
import { palette } from "./palette";
import type { Frame } from "./plot";

const SIZE = 4;

/** Draws on the plot's own canvas, in its device pixels. */
export function paintMarks(plot: uPlot, marks: Mark[], frame: Frame | null): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const colors = palette();
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  if (frame !== null) paintResumes(plot, frame.resumed, colors, ratio);
  if (frame !== null && frame.at !== null) paintMoment(plot, frame.at, colors.marker, ratio);
  ctx.strokeStyle = colors.critical;
  ctx.fillStyle = colors.critical;
  ctx.lineWidth = 1.5 * ratio;
  for (const mark of marks) {
    const x = plot.valToPos(mark.x, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.globalAlpha = 0.28;
    line(ctx, x, bbox.top, x, bbox.top + bbox.height);
    ctx.globalAlpha = 1;
    paintMark(ctx, mark, x, bbox, ratio);
  }
  ctx.restore();
}

function paintMark(ctx: CanvasRenderingContext2D, mark: Mark, x: number, bbox: uPlot.BBox, ratio: number): void {
  const size = SIZE * ratio;
  if (mark.what === "NaN") {
    const y = bbox.top + bbox.height - 2 * size;
    line(ctx, x - size, y - size, x + size, y + size);
    line(ctx, x - size, y + size, x + size, y - size);
    return;
  }
  const up = mark.what === "Infinity";
  const tip = up ? bbox.top + size / 2 : bbox.top + bbox.height - size / 2;
  const foot = up ? tip + 2 * size : tip - 2 * size;
  ctx.beginPath();
  ctx.moveTo(x, tip);
  ctx.lineTo(x - size, foot);
  ctx.lineTo(x + size, foot);
  ctx.closePath();
  ctx.fill();
}

/** A line with a word beside it, while there is room for one. */
function paintResumes(plot: uPlot, places: readonly Place[], colors: ReturnType<typeof palette>, ratio: number): void {
  const { ctx, bbox } = plot;
  ctx.font = colors.font.replace(/[\d.]+px/, (size) => `${parseFloat(size) * ratio}px`);
  ctx.fillStyle = ctx.strokeStyle = colors.muted;
  ctx.lineWidth = ratio;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  let free = bbox.left;
  for (const { x: at, label } of places) {
    const x = plot.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.setLineDash([ratio, 2 * ratio]);
    line(ctx, x, bbox.top, x, bbox.top + bbox.height);
    ctx.setLineDash([]);
    const width = ctx.measureText(label).width + 4 * ratio;
    const left = x + width > bbox.left + bbox.width ? x - width : x + 4 * ratio;
    if (left < free) continue;
    ctx.fillText(label, left, bbox.top + ratio);
    free = left + width;
  }
}

function paintMoment(plot: uPlot, at: number, color: string, ratio: number): void {
  const { ctx, bbox } = plot;
  const x = plot.valToPos(at, "x", true);
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  line(ctx, x, bbox.top, x, bbox.top + bbox.height);
  ctx.setLineDash([]);
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
