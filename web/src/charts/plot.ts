// The one place that knows uPlot.

import uPlot from "uplot";
import { nearest } from "../lib/search";
import { logLabels, logSplits, ROUND, type Ticks } from "../lib/ticks";
import type { Place } from "../state/resumes";
import type { XAxis } from "../wire/types.gen";
import { isolated, yRangeOf, type Column, type Picture } from "./aligned";
import { multiples, shifted, X_TICKS, xSteps, zoneShift } from "./axes";
import type { Crosshair, Follower } from "./crosshair";
import { paintMarks } from "./marks";
import { palette } from "./palette";

export interface PlotEvents {
  /** Index into the picture's x under the crosshair; -1 where the chart has nothing, null while nobody points. */
  onPoint(index: number | null): void;
  onZoom(from: number, to: number): void;
  onReset(): void;
}

export interface Frame {
  xKind: XAxis;
  /** What x shows. */
  range: readonly [number, number];
  /** A moment to mark, or null. */
  at: number | null;
  yTicks: Ticks;
  /** Whether y counts bytes: its grid is in powers of two then. */
  inBytes?: boolean;
  /** Fixed lower and upper end of y, or null. */
  yRange: readonly [number, number] | null;
  /** What the labels of x say more than its values; nothing when absent. */
  xShift?: number;
  /** Where the run was gone on with. */
  resumed: readonly Place[];
}

const TOUCH_PX = 3;

/** One chart. `draw` is cheap when only data changed; lines that appear or go rebuild it. */
export class Plot implements Follower {
  private plot: uPlot | null = null;
  private shape = "";
  private picture: Picture | null = null;
  private frame: Frame | null = null;
  private readonly leave: () => void;
  private following = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly events: PlotEvents,
    private readonly crosshair: Crosshair,
  ) {
    this.leave = crosshair.join(this);
  }

  destroy(): void {
    this.leave();
    this.plot?.destroy();
    this.plot = null;
  }

  draw(picture: Picture, frame: Frame, width: number, height: number): void {
    this.picture = picture;
    this.frame = frame;
    const shape = shapeOf(picture, frame);
    const data = [picture.x, ...columnsOf(picture)] as unknown as uPlot.AlignedData;
    this.following = true; // what a redraw does to the cursor is no pointing
    if (this.plot === null || shape !== this.shape) {
      this.plot?.destroy();
      this.shape = shape;
      this.plot = new uPlot(this.options(picture, frame, width, height), data, this.host);
    } else {
      const { plot } = this;
      if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
      plot.batch(() => {
        plot.setData(data, false);
        plot.setScale("x", { min: frame.range[0], max: frame.range[1] });
      });
    }
    this.following = false;
    if (this.crosshair.x !== null) this.follow(this.crosshair.x);
  }

  follow(x: number | null): void {
    if (this.plot === null) return;
    this.following = true;
    const isShown = x !== null && this.frame !== null && x >= this.frame.range[0] && x <= this.frame.range[1];
    this.plot.setCursor(isShown ? { left: this.plot.valToPos(x, "x"), top: 0 } : { left: -10, top: -10 });
    this.following = false;
  }

  /** Moves the crosshair by whole points, from the keyboard. */
  step(by: number, from: number | null): void {
    const { plot, picture, frame } = this;
    if (plot === null || picture === null || frame === null || picture.x.length === 0) return;
    const start = from ?? (by > 0 ? nearest(picture.x, frame.range[0]) - 1 : nearest(picture.x, frame.range[1]) + 1);
    const index = Math.min(picture.x.length - 1, Math.max(0, start + by));
    plot.setCursor({ left: plot.valToPos(picture.x[index] ?? 0, "x"), top: 0 });
  }

  private pointed(): void {
    const { plot, picture } = this;
    if (plot === null || picture === null) return;
    const left = plot.cursor.left ?? -1;
    const x = left >= 0 ? plot.posToVal(left, "x") : null;
    if (!this.following) this.crosshair.point(x, this);
    this.events.onPoint(x === null ? null : reachable(picture, x));
  }

  private selected(): void {
    const { plot } = this;
    if (plot === null || plot.select.width < TOUCH_PX) return;
    const from = plot.posToVal(plot.select.left, "x");
    const to = plot.posToVal(plot.select.left + plot.select.width, "x");
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.onZoom(from, to);
  }

  private yRange(): [number, number] {
    const { picture, frame } = this;
    return picture === null || frame === null ? [0, 1] : yRangeOf(picture, frame);
  }

  private options(picture: Picture, frame: Frame, width: number, height: number): uPlot.Options {
    const colors = palette();
    return {
      width,
      height,
      padding: [8, 20, 0, 0],
      pxAlign: 0,
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 6, width: 1.5 },
        bind: {
          dblclick: () => () => {
            this.events.onReset();
            return null;
          },
        },
      },
      select: { show: true, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: { time: false, auto: false, range: () => [this.frame?.range[0] ?? 0, this.frame?.range[1] ?? 1] },
        y: { distr: picture.log ? 3 : 1, range: () => this.yRange() },
      },
      axes: [xAxis(frame, colors), yAxis(frame, colors, picture.log, height)],
      series: [{}, ...seriesOf(picture, colors)],
      ...(picture.band === null ? {} : { bands: [{ series: [2, 1] as [number, number], fill: tint(colors.lines[picture.band.color] ?? "", 0.2) }] }),
      hooks: {
        setCursor: [() => this.pointed()],
        setSelect: [() => this.selected()],
        draw: [
          (plot) => {
            if (this.picture !== null) paintMarks(plot, this.picture.marks, this.frame);
          },
        ],
      },
    };
  }
}

/** The entry under the pointer, or -1 when none is near enough to speak for it: a metric that began later says nothing. */
function reachable(picture: Picture, x: number): number {
  const index = nearest(picture.x, x);
  const first = picture.x[0];
  const last = picture.x[picture.x.length - 1];
  if (index < 0 || first === undefined || last === undefined) return -1;
  const spacing = picture.x.length > 1 ? (last - first) / (picture.x.length - 1) : Infinity;
  return x < first - spacing || x > last + spacing ? -1 : index;
}

function shapeOf(picture: Picture, frame: Frame): string {
  const lines = picture.lines.map((line) => `${line.key}:${line.color}:${line.width}:${line.alpha}:${line.dashed ?? false}`);
  return JSON.stringify([lines, picture.band?.color ?? null, picture.log, frame.xKind, frame.xShift, palette().text, palette().grid]);
}

function columnsOf(picture: Picture): Column[] {
  const band = picture.band === null ? [] : [picture.band.low, picture.band.high];
  return [...band, ...picture.lines.map((line) => line.values)];
}

function seriesOf(picture: Picture, colors: ReturnType<typeof palette>): uPlot.Series[] {
  // A band's edge is drawn, or an extreme one point wide would be too faint to see.
  const edgeColor = tint(colors.lines[picture.band?.color ?? 0] ?? "", EDGE_ALPHA);
  const edge: uPlot.Series = { stroke: edgeColor, width: 1, points: { show: false }, spanGaps: false };
  const band = picture.band === null ? [] : [edge, edge];
  const lines = picture.lines.map((line): uPlot.Series => {
    const stroke = tint(colors.lines[line.color % colors.lines.length] ?? "", line.alpha);
    return {
      label: line.label,
      stroke,
      width: line.width,
      ...(line.dashed === true ? { dash: [5, 4] } : {}),
      points: {
        show: true,
        size: Math.max(4, line.width * 3),
        width: 0,
        fill: stroke,
        filter: (plot, index) => {
          const [from, to] = plot.series[0]?.idxs ?? [0, 0];
          const values = plot.data[index] as Column;
          return isFew(values, from, to) ? present(values, from, to) : isolated(values, from, to);
        },
      },
    };
  });
  return [...band, ...lines];
}

const FEW = 24;
const EDGE_ALPHA = 0.36;

function isFew(values: Column, from: number, to: number): boolean {
  return to - from < FEW && values.length > 0;
}

function present(values: Column, from: number, to: number): number[] {
  const out: number[] = [];
  for (let i = Math.max(0, from); i <= to; i++) if (typeof values[i] === "number") out.push(i);
  return out;
}

function tint(color: string, alpha: number): string {
  if (alpha >= 1 || !/^#[0-9a-f]{6}$/i.test(color)) return color;
  return color + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

const LETTER_PX = 6.4;

function xAxis({ xKind: kind, xShift = 0 }: Frame, colors: ReturnType<typeof palette>): uPlot.Axis {
  const ticks = shifted(X_TICKS[kind], xShift);
  return {
    stroke: colors.muted,
    font: colors.font,
    size: 24,
    gap: 4,
    space: (_plot, _axis, from, to, room) => Math.max(widest(ticks, from, to, room) * LETTER_PX + 22, room / 14),
    grid: { stroke: colors.grid, width: 1 },
    ticks: { show: false },
    incrs: xSteps(kind),
    ...(kind === "time" || xShift !== 0 ? { splits: (_plot: uPlot, _axis: number, from: number, to: number, step: number) => multiples(from, to, step, kind === "time" ? zoneShift(from) : xShift) } : {}),
    values: (_plot, splits, _axis, _space, step) => ticks(splits, step),
  };
}

/** Letters of the longest label that an axis may come to have. */
function widest(ticks: Ticks, from: number, to: number, room: number): number {
  const rough = ((to - from) * 64) / Math.max(64, room);
  const step = ROUND.find((each) => each >= rough) ?? rough;
  const first = Math.floor(from / step) * step;
  return ticks([first, first + step, first + 2 * step], step).reduce((most, label) => Math.max(most, label.length), 4);
}

const BINARY = Array.from({ length: 56 }, (_, power) => 2 ** power);
function yAxis(frame: Frame, colors: ReturnType<typeof palette>, log: boolean, height: number): uPlot.Axis {
  return {
    stroke: colors.muted,
    font: colors.font,
    size: (_plot, values) => Math.max(36, 12 + 6.4 * Math.max(0, ...(values ?? []).map((value) => value?.length ?? 0))),
    gap: 6,
    space: Math.max(34, height / 8),
    grid: { stroke: colors.grid, width: 1 },
    ticks: { show: false },
    values: (_plot, splits, _axis, _space, step) => (log ? logLabels(splits) : frame.yTicks(splits, step)),
    ...(frame.inBytes === true ? { incrs: BINARY } : {}),
    ...(log ? { splits: (plot: uPlot, _axis: number, from: number, to: number) => logSplits(from, to, plot.bbox.height / devicePixelRatio / 30), filter: (_plot: uPlot, splits: number[]) => splits } : {}),
  };
}
