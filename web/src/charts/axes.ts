// What stands along a chart's axes.

import * as format from "../lib/format";
import { decades, elapsed, elapsedTicks, numberTicks, timeTicks, type Ticks } from "../lib/ticks";
import type { XAxis } from "../wire/types.gen";

export const X_TICKS: Record<XAxis, Ticks> = { step: numberTicks, epoch: numberTicks, time: timeTicks, relative: elapsedTicks };

/** Ticks whose labels say more than their values. */
export function shifted(ticks: Ticks, by: number): Ticks {
  return by === 0 ? ticks : (values, step) => ticks(values.map((value) => value + by), step);
}

const WHOLE = decades(0, 16);
const SECONDS = [...decades(-6, 1), 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];

/** What ticks of x may be apart. */
export function xSteps(kind: XAxis): number[] {
  return kind === "step" || kind === "epoch" ? WHOLE : SECONDS;
}

/** Multiples of a step within a range; `shift` moves them. */
export function multiples(from: number, to: number, step: number, shift = 0): number[] {
  const first = Math.ceil((from + shift) / step - 1e-9);
  const count = Math.floor((to + shift) / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step - shift);
}

/** Seconds by which the reader's own zone is ahead: ticks of wall time stand at its whole hours and days. */
export function zoneShift(at: number): number {
  return new Date(at * 1000).getTimezoneOffset() * -60;
}

/** A value of x as a read-out says it, as exact as a window of `width` asks for. */
export function xLabel(kind: XAxis, value: number, width: number): string {
  const step = Math.min(1, 10 ** Math.floor(Math.log10(Math.max(width / 1000, 1e-6))));
  if (kind === "time") return width > 60 ? format.when(value) : (timeTicks([value], step)[0] ?? "");
  if (kind === "relative") return elapsed(value, width > 60 ? 1 : step);
  return `${kind} ${format.count(value)}`;
}
