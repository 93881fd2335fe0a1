// Is it learning? The course of a curve in one word, and its outline for a glance.

import type { Entries } from "./columns";

export type Trend = "falling" | "rising" | "flat" | "not finite" | null;

const FEWEST = 8;
/** Standard errors of the difference: what scatter alone does one time in forty is no trend. */
const NOISE = 2.25;

function finite(values: readonly (number | null)[]): number[] {
  return values.filter((value): value is number => value !== null && Number.isFinite(value));
}

function meanOf(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function varianceOf(values: number[]): number {
  const center = meanOf(values);
  return meanOf(values.map((value) => (value - center) ** 2));
}

/** Compares the last fifth with the fifth before it; a difference within the scatter is flat. */
export function trendOf(entries: Entries): Trend {
  const last = entries.mean[entries.mean.length - 1];
  if (last !== null && last !== undefined && !Number.isFinite(last)) return "not finite";
  const values = finite(entries.mean);
  if (values.length < FEWEST) return null;
  const size = Math.max(2, Math.floor(values.length / 5));
  const now = values.slice(-size);
  const before = values.slice(-2 * size, -size);
  const difference = meanOf(now) - meanOf(before);
  const scatter = Math.sqrt((varianceOf(now) + varianceOf(before)) / (size - 1));
  const span = Math.max(...values) - Math.min(...values);
  if (Math.abs(difference) <= Math.max(NOISE * scatter, span * 0.004)) return "flat";
  return difference < 0 ? "falling" : "rising";
}

/** An SVG path of the curve in a box of `width` × `height`; buckets keep their mean. */
export function outline(entries: Entries, width: number, height: number, buckets = 80): string {
  const values = entries.mean;
  const size = Math.max(1, Math.ceil(values.length / buckets));
  const points: number[] = [];
  for (let i = 0; i < values.length; i += size) {
    const bucket = finite(values.slice(i, i + size));
    if (bucket.length > 0) points.push(meanOf(bucket));
  }
  if (points.length < 2) return "";
  const low = Math.min(...points);
  const span = Math.max(...points) - low || 1;
  const place = (value: number, i: number) => {
    const x = (i / (points.length - 1)) * width;
    const y = height - 1.5 - ((value - low) / span) * (height - 3);
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  };
  return `M${points.map(place).join("L")}`;
}
