// A chart as a picture that goes elsewhere: into a talk, a paper, an issue. What is drawn is gathered here; a script that is
// fetched when it is first needed writes it as SVG, and a PNG is made of that.

import { logLabels, logSplits, ROUND } from "../lib/ticks";
import type { Place } from "../state/resumes";
import type { XAxis } from "../wire/types.gen";
import { yRangeOf, type Column, type Picture } from "./aligned";
import { multiples, shifted, X_TICKS, xSteps, zoneShift } from "./axes";
import { announced } from "./arranging";
import { palette } from "./palette";
import type { Frame } from "./plot";

export interface Axis {
  range: readonly [number, number];
  ticks: (readonly [at: number, label: string])[];
}

export interface Note {
  text: string;
  /** Of its line; none for what is only said. */
  color: string | null;
}

export interface ChartFile {
  title: string;
  notes: Note[];
  x: Axis & { name: string };
  y: Axis & { isLog: boolean };
  places: number[];
  band: { low: Column; high: Column; color: string } | null;
  lines: { values: Column; color: string; width: number; alpha: number; isDashed: boolean }[];
  marks: { x: number; sign: string }[];
  resumed: readonly Place[];
  colors: { ground: string; text: string; muted: string; grid: string; critical: string };
  font: string;
  width: number;
  height: number;
}

const KEY = Symbol.for("trackside.chartfile");
const WIDTH = 960;
const HEIGHT = 480;
const SCALE = 2;
const X_COUNT = 9;
const Y_COUNT = 7;
const SIGNS = { NaN: "✕", Infinity: "▲", "-Infinity": "▼" };
export const X_NAMES: Record<XAxis, string> = { step: "step", epoch: "epoch", time: "wall time", relative: "time since start" };

function gathered(title: string, picture: Picture, frame: Frame): ChartFile {
  const colors = palette();
  const color = (index: number) => colors.lines[index % colors.lines.length] ?? colors.text;
  const y = yRangeOf(picture, frame);
  const lines = picture.lines.map((line) => ({ ...line, color: color(line.color), isDashed: line.dashed === true }));
  return {
    title,
    notes: [...lines.map(({ label, color: own }) => ({ text: label, color: own })), ...(picture.band === null ? [] : [{ text: "min–max", color: null }])],
    x: { ...xAxis(frame), name: X_NAMES[frame.xKind] },
    y: { ...yAxis(y, picture.log, frame), isLog: picture.log },
    places: picture.x,
    band: picture.band === null ? null : { ...picture.band, color: color(picture.band.color) },
    lines,
    marks: picture.marks.map(({ x, what }) => ({ x, sign: SIGNS[what] })),
    resumed: frame.resumed,
    colors: { ...colors, ground: getComputedStyle(document.documentElement).getPropertyValue("--surface").trim() },
    font: getComputedStyle(document.body).fontFamily,
    width: WIDTH,
    height: HEIGHT,
  };
}

function xAxis({ range, xKind, xShift = 0 }: Frame): Axis {
  const [from, to] = range;
  const step = xSteps(xKind).find((each) => each >= (to - from) / X_COUNT) ?? to - from;
  const places = multiples(from, to, step, xKind === "time" ? zoneShift(from) : xShift);
  const labels = shifted(X_TICKS[xKind], xShift)(places, step);
  return { range, ticks: places.map((at, i) => [at, labels[i] ?? ""] as const) };
}

function yAxis(range: readonly [number, number], isLog: boolean, { yTicks }: Frame): Axis {
  const [from, to] = range;
  const step = ROUND.find((each) => each >= (to - from) / Y_COUNT) ?? to - from;
  const places = isLog ? logSplits(from, to, Y_COUNT) : multiples(from, to, step);
  const labels = isLog ? logLabels(places) : yTicks(places, step);
  return { range, ticks: places.map((at, i) => [at, labels[i] ?? ""] as const) };
}

/** Fetches what writes charts, once; a report has it inside. @throws It could not be had: the controller has gone. */
export async function writing(): Promise<(file: ChartFile) => string> {
  if (announced(KEY) === undefined) await import("./later/chartsvg");
  const write = announced(KEY);
  if (write === undefined) throw new Error("what writes charts did not announce itself");
  return write as (file: ChartFile) => string;
}

/** The chart as a file of the kind. */
export async function chartFile(kind: "svg" | "png", title: string, picture: Picture, frame: Frame): Promise<Blob> {
  const text = (await writing())(gathered(title, picture, frame));
  if (kind === "svg") return new Blob([text], { type: "image/svg+xml" });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * SCALE;
  canvas.height = HEIGHT * SCALE;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob === null ? fail(new Error("the browser made no picture")) : done(blob)), "image/png"));
}
