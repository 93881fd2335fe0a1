// Labels of an axis: as few digits as its step needs, so that no two say the same at any zoom.

import { bytes, dateOf, group, pad, percent, tick, timeOfDay, trimmed } from "./format";

/** Labels of ticks that are `step` apart. */
export type Ticks = (values: readonly number[], step: number) => string[];

const MOST_DIGITS = 30;
/** A step may be told this much too long or too short. */
const SLACK = 0.02;

/** Decimals that a step needs: 0 for 5, 2 for 0.25. */
export function decimalsOf(step: number): number {
  for (let digits = 0; digits < MOST_DIGITS; digits++) {
    const scaled = step * 10 ** digits;
    if (Math.round(scaled) >= 1 && Math.abs(scaled - Math.round(scaled)) <= SLACK * scaled) return digits;
  }
  return MOST_DIGITS;
}

function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

function power(value: number): number {
  return Math.floor(Math.log10(value) + 1e-9);
}

/** Plain numbers: `0.25`, `1 200`, `25k`, `3.5M`, `2e-5`. */
export const numberTicks: Ticks = (values, step) => {
  const most = largest(values);
  const decimals = decimalsOf(step);
  const say = (value: number): string => {
    if (most >= 1e9 || most < 0.001) return trimmed(value.toExponential(Math.min(MOST_DIGITS, Math.max(0, power(most) + decimals)))).replace("e+", "e");
    for (const [unit, sign] of most >= 1e6 ? ([[1e6, "M"]] as const) : most >= 1e4 ? ([[1e3, "k"]] as const) : []) {
      const digits = decimalsOf(step / unit);
      if (digits <= 2) return `${(value / unit).toFixed(digits)}${sign}`;
    }
    return group(value.toFixed(decimals));
  };
  return values.map((value) => (Math.abs(value) < step / 1e6 ? "0" : say(value)));
};

const KIB = 1024;

/** Bytes in one unit: `512 MB`, `100.25 GB`. */
export const byteTicks: Ticks = (values, step) => {
  const [figure = "", unit = "B"] = bytes(largest(values)).split(" ");
  const size = figure === "" ? 1 : KIB ** Math.max(0, ["B", "KB", "MB", "GB", "TB", "PB"].indexOf(unit));
  return values.map((value) => (value === 0 ? "0" : `${(value / size).toFixed(decimalsOf(step / size))} ${unit}`));
};

/** Ratios in per cent. */
export const percentTicks: Ticks = (values, step) => values.map((value) => percent(value, decimalsOf(step * 100)));

/** Time since start: `250ms`, `1.5s`, `12s`, `4m 30s`, `2h 15m`, `1d 06h`; what a step never shows is left out. */
export const elapsedTicks: Ticks = (values, step) => {
  const isShort = largest(values) < 1;
  return values.map((value) => {
    if (Math.abs(value) < step / 1e6) return "0s";
    return isShort ? `${value < 0 ? "−" : ""}${Math.abs(value * 1000).toFixed(decimalsOf(step * 1000))}ms` : elapsed(value, step);
  });
};

/** A time since start, as exact as `step`, seconds. */
export function elapsed(value: number, step: number): string {
  const digits = step >= 1 ? 0 : decimalsOf(step);
  const size = Number(Math.abs(value).toFixed(digits));
  const whole = Math.floor(size);
  const parts: [number, string][] = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "m"]];
  const first = parts.findIndex(([count]) => count > 0);
  const texts = first < 0 ? [] : parts.slice(first).map(([count, unit], i) => `${i === 0 ? count : pad(count)}${unit}`);
  const seconds = size - whole + (whole % 60);
  if (first < 0 || step % 60 !== 0 || seconds > 0) texts.push(`${first < 0 ? seconds.toFixed(digits) : seconds.toFixed(digits).padStart(digits === 0 ? 2 : digits + 3, "0")}s`);
  else if (step % 3600 === 0 && texts.length > 1 && texts[texts.length - 1] === "00m") texts.pop();
  return `${value < 0 ? "−" : ""}${texts.join(" ")}`;
}

/** Local times of day; where days would repeat them, with their date. */
export const timeTicks: Ticks = (values, step) => {
  const short = values.map((value) => timeTick(value, step));
  const isTold = new Set(short).size === short.length;
  return isTold ? short : values.map((value, i) => (short[i] === dateOf(value) ? dateOf(value) : `${dateOf(value)} ${short[i] ?? ""}`));
};

/** A tick of a time axis: midnight says which day begins. */
function timeTick(seconds: number, step: number): string {
  const digits = step >= 1 ? 0 : decimalsOf(step);
  const at = Number(seconds.toFixed(digits));
  const clock = timeOfDay(at);
  if (step >= 3600 && clock === "00:00:00") return dateOf(at);
  if (step >= 60) return clock.slice(0, 5);
  return digits === 0 ? clock : `${clock}${(at - Math.floor(at)).toFixed(digits).slice(1)}`;
}

/** 1, 2 and 5 times powers of ten. */
export function decades(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => [1, 2, 5].map((digit) => Number(`${digit}e${from + i}`))).flat();
}

export const ROUND = decades(-30, 16);
/** Below this ratio of its ends a log scale is told like a plain one. */
const NARROW = 5;

/** Where a log scale has its ticks: at whole decades, at fewer when there are many, between them when there are few. */
export function logSplits(from: number, to: number, room: number): number[] {
  const most = Math.max(2, Math.floor(room));
  const [low, high] = [Math.ceil(Math.log10(from) - 1e-9), Math.floor(Math.log10(to) + 1e-9)];
  if (high - low >= 2) {
    const stride = Math.ceil((high - low + 1) / Math.min(5, most));
    return Array.from({ length: Math.floor((high - low) / stride) + 1 }, (_, i) => Number(`1e${low + i * stride}`));
  }
  if (to / from > NARROW) return decades(low - 1, high + 2).filter((value) => value >= from && value <= to);
  const step = ROUND.find((each) => each >= (to - from) / most) ?? to - from;
  return Array.from({ length: most + 1 }, (_, i) => (Math.ceil(from / step) + i) * step).filter((value) => value <= to);
}

export function logLabels(splits: readonly number[]): string[] {
  const [first = 1, second = first] = splits;
  const last = splits[splits.length - 1] ?? first;
  return last / first > NARROW ? splits.map(tick) : numberTicks(splits, second - first || first / 100);
}
