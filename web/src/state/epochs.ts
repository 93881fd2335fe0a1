// What the table of epochs needs beyond the records.

import { real } from "../wire/numbers";
import type { EpochRecord, RankEntry } from "../wire/types.gen";
import { inPageOrder } from "./merge";
import { isSuperseded, type Resume } from "./resumes";

/** Every metric that any epoch has, in page order. */
export function metricColumns(epochs: EpochRecord[]): string[] {
  return [...new Set(epochs.flatMap((record) => Object.keys(record.metrics)))].sort(inPageOrder);
}

const MORE_IS_BETTER = /acc|auc|f1|precision|recall|bleu|rouge|iou|dice|\br2\b|reward|score|psnr|ssim|map\b|throughput/i;
const LESS_IS_BETTER = /loss|err|perplexity|ppl|wer\b|cer\b|mse|mae|rmse|fid\b|nll|divergence/i;

/** Whether more or less of a metric is better, by its name; null when the name does not say. */
export function goalOf(name: string): "max" | "min" | null {
  if (LESS_IS_BETTER.test(name)) return "min";
  return MORE_IS_BETTER.test(name) ? "max" : null;
}

/** The complete epoch that stands with the best finite value, or null when there are fewer than two or the name does not say. */
export function bestOf(name: string, epochs: EpochRecord[], resumes: readonly Resume[] = []): number | null {
  const goal = goalOf(name);
  const known = epochs
    .filter((record) => record.complete && !isSuperseded(record, resumes))
    .map((record) => ({ epoch: record.epoch, value: real(record.metrics[name]) }))
    .filter((item): item is { epoch: number; value: number } => item.value !== null && Number.isFinite(item.value));
  if (goal === null || known.length < 2) return null;
  const better = (a: number, b: number) => (goal === "max" ? a > b : a < b);
  return known.reduce((best, item) => (better(item.value, best.value) ? item : best)).epoch;
}

/** What an epoch's number lacks: the first one is 1 on the page, whether the script counts from 0 or from 1. */
export function offsetOf(epochs: EpochRecord[], ranks: RankEntry[], planned: number | null): 0 | 1 {
  const seen = [...epochs, ...ranks].flatMap(({ epoch }) => epoch ?? []);
  const first = seen.reduce((least, epoch) => Math.min(least, epoch), Infinity);
  const last = seen.reduce((most, epoch) => Math.max(most, epoch), -Infinity);
  // Gone on with in the middle by a run of its own, it is told by the last one of those that are planned.
  return first === 0 || (seen.length > 0 && first > 1 && last < (planned ?? 0)) ? 1 : 0;
}
