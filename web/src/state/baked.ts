// The data inside a report, asked like a server: the same charts, zoom and axes without one.

import { real } from "../wire/numbers";
import type { BakedSeries, JsonNumber, SeriesAnswer, XAxis } from "../wire/types.gen";
import { NoSuchSeries, NotKept, type SeriesQuery, type SeriesSource } from "./curves";

type Row = { x: number; mean: JsonNumber; min: JsonNumber; max: JsonNumber; count: number };

export function bakedSource(series: BakedSeries[], startedAt: number): SeriesSource {
  const byKey = new Map(series.map((item) => [`${item.path} ${item.metric}`, item]));
  return {
    series(query) {
      const found = byKey.get(`${query.path} ${query.metric}`);
      if (found === undefined) {
        const what = `${query.metric} of ${query.path}`;
        return Promise.reject(byKey.has(`root ${query.metric}`) && query.path !== "root" ? new NotKept(what) : new NoSuchSeries(what));
      }
      return Promise.resolve(answer(found, query, startedAt));
    },
  };
}

function answer(series: BakedSeries, query: SeriesQuery, startedAt: number): SeriesAnswer {
  const { from, to } = query;
  const rows = (query.x === "epoch" ? byEpoch(series) : rowsOf(series, query.x, startedAt)).filter(
    (row) => (from === null || row.x >= from) && (to === null || row.x <= to),
  );
  return {
    metric: series.metric,
    path: series.path,
    x: rows.map((row) => row.x),
    mean: rows.map((row) => row.mean),
    min: rows.map((row) => row.min),
    max: rows.map((row) => row.max),
    count: rows.map((row) => row.count),
    total_points: series.total_points,
    reduction: series.reduction,
    std: [],
    x_kind: query.x,
    decimated: false,
    non_finite: query.x === "step" ? series.non_finite : [],
  };
}

function rowsOf(series: BakedSeries, axis: XAxis, startedAt: number): Row[] {
  const rows = series.step.map((step, i) => ({
    x: axis === "step" ? step : (series.time[i] ?? 0) - (axis === "relative" ? startedAt : 0),
    mean: series.mean[i] ?? null,
    min: series.min[i] ?? null,
    max: series.max[i] ?? null,
    count: series.count[i] ?? 0,
  }));
  return rows.sort((a, b) => a.x - b.x);
}

function byEpoch(series: BakedSeries): Row[] {
  const epochs = new Map<number, { sum: number; weight: number; min: number; max: number; count: number }>();
  for (let i = 0; i < series.step.length; i++) {
    const epoch = series.epoch[i];
    const mean = real(series.mean[i]);
    if (epoch === null || epoch === undefined || mean === null || !Number.isFinite(mean)) continue;
    const row = epochs.get(epoch) ?? { sum: 0, weight: 0, min: Infinity, max: -Infinity, count: 0 };
    const count = series.count[i] ?? 1;
    row.sum += mean * count;
    row.weight += count;
    row.min = Math.min(row.min, real(series.min[i]) ?? mean);
    row.max = Math.max(row.max, real(series.max[i]) ?? mean);
    row.count = Math.max(row.count, count);
    epochs.set(epoch, row);
  }
  const rows = [...epochs].map(([x, row]) => ({ ...row, x, mean: row.sum / row.weight }));
  return rows.sort((a, b) => a.x - b.x);
}
