// A chart's picture from its curves and from how one wants to see them.

import { csv } from "../lib/csv";
import { ema } from "../lib/ema";
import type { Entries, Mark } from "../state/columns";
import type { XAxis } from "../wire/types.gen";
import { aligned, drawable, pictureOf, type Line, type Picture } from "./aligned";

export interface RankCurve {
  rank: number;
  label: string;
  entries: Entries;
}

export interface Look {
  log: boolean;
  band: boolean;
  /** 0: none. */
  smooth: number;
  /** Only this line, or all. */
  solo: string | null;
  label: string;
}

/** The cohort's curve with its band, smoothed over itself drawn faint, and the ranks over it. */
export function compose(cohort: Entries, marks: Mark[], ranks: RankCurve[], look: Look): Picture {
  const main = pictureOf(cohort, marks, look.label, { log: look.log, band: look.band, color: 0 });
  const smoothed = look.smooth > 0 ? withSmooth(main, cohort, look) : main;
  const all = ranks.length > 0 ? withRanks(smoothed, cohort, ranks, look) : smoothed;
  return look.solo === null ? all : alone(all, look.solo);
}

function withSmooth(picture: Picture, entries: Entries, look: Look): Picture {
  const raw = picture.lines.map((line): Line => ({ ...line, key: "raw", alpha: 0.3, width: 1 }));
  const values = drawable(ema(entries.x, entries.mean, look.smooth), look.log);
  return { ...picture, lines: [...raw, { key: "mean", label: look.label, values, color: 0, width: 1.8, alpha: 1 }] };
}

function withRanks(picture: Picture, cohort: Entries, ranks: RankCurve[], look: Look): Picture {
  const bandColumns = picture.band === null ? [] : [picture.band.low, picture.band.high];
  const own = [...bandColumns, ...picture.lines.map((line) => line.values)];
  const theirs = ranks.map(({ entries }) => {
    const values = look.smooth > 0 ? ema(entries.x, entries.mean, look.smooth) : entries.mean;
    return { x: entries.x, values: drawable(values, look.log) };
  });
  const table = aligned([...own.map((values) => ({ x: cohort.x, values })), ...theirs]);
  const lines = picture.lines.map((line, i) => ({ ...line, width: 2, values: table.values[bandColumns.length + i] ?? [] }));
  const rankLines = ranks.map(({ rank, label }, i): Line => {
    const values = table.values[own.length + i] ?? [];
    return { key: `rank${rank}`, label, values, color: (i % 7) + 1, width: 1, alpha: 0.85, dashed: i % 14 > 6 };
  });
  const band = picture.band;
  return {
    ...picture,
    x: table.x,
    lines: [...rankLines, ...lines],
    band: band === null ? null : { low: table.values[0] ?? [], high: table.values[1] ?? [], color: band.color },
  };
}

function alone(picture: Picture, key: string): Picture {
  if (key === "band") return { ...picture, lines: [] };
  const lines = picture.lines.filter((line) => line.key === key);
  return lines.length === 0 ? picture : { ...picture, lines, band: null };
}

const X_COLUMNS: Record<XAxis, string> = { step: "step", epoch: "epoch", time: "time_utc_s", relative: "since_start_s" };

/** Curves as one table, a line an x: the first with its extremes and how many values stand behind it, the others beside it. */
export function curvesCsv(curves: { label: string; entries: Entries }[], axis: XAxis, reduction: string): string {
  const columns = curves.flatMap(({ label, entries }, i) => {
    const own = { name: i === 0 ? reduction : label, x: entries.x, values: entries.mean };
    return i > 0 ? [own] : [own, ...(["min", "max", "count"] as const).map((name) => ({ name: name === reduction ? `${name}_of_values` : name, x: entries.x, values: entries[name] }))];
  });
  const { x, values } = aligned(columns);
  return csv([X_COLUMNS[axis], ...columns.map(({ name }) => name)], x.map((at, i) => [at, ...values.map((column) => column[i])]));
}
