import type { Signal } from "@preact/signals";
import type { Line, Picture } from "../charts/aligned";
import * as format from "../lib/format";
import type { Entries } from "../state/columns";
import type { Spread } from "../state/spread";

interface Props {
  picture: Picture;
  index: number | null;
  solo: Signal<string | null>;
  /** Of the cohort, for how many ranks stand behind the mean. */
  entries?: Entries;
  /** Ranks there are: an entry of many steps counts each of their values. */
  ranks?: number;
  /** The line whose value stands above the legend already. */
  lead?: Line | undefined;
  /** How many values a log scale has no place for. */
  unplaced?: number;
  spread?: Spread | null;
  marks?: number;
  values?: (value: number) => string;
}

const NEIGHBOURS = 6;

/** What is drawn, each with its value at the crosshair; a click shows it alone, again shows all. */
export function Legend({ picture, index, solo, entries, ranks = 0, lead, unplaced = 0, spread = null, marks = 0, values = format.metric }: Props) {
  const at = index ?? picture.x.length - 1;
  const hasBand = picture.band !== null || solo.value !== null;
  const count = entries === undefined ? 0 : Math.min(ranks, countAt(entries, index));
  const isSmoothed = picture.lines.some((line) => line.key === "raw");
  return (
    <ul class="legend">
      {leadFirst(picture.lines).map((line) => {
        if (line.key === "raw") return null; // the reading above says its value
        const value = index === null ? lastValue(line) : valueNear(line, at);
        const note = line.key !== "mean" ? "" : `${count > 1 ? ` of ${count}` : ""}${isSmoothed ? ", smoothed" : ""}`;
        return <Entry key={line.key} line={line} figure={line === lead ? null : value === null ? format.UNKNOWN : values(value)} solo={solo} note={note} />;
      })}
      {hasBand && picture.band !== null && (
        <li>
          <button type="button" class="legend-entry" aria-pressed={solo.value === "band"} title="Show alone" onClick={() => toggle(solo, "band")}>
            <i class="swatch-band" />
            min–max <span class="figure">{bandText(picture, at)}</span>
          </button>
        </li>
      )}
      {solo.value !== null && (
        <li>
          <button type="button" class="legend-entry is-all" onClick={() => (solo.value = null)}>
            show all
          </button>
        </li>
      )}
      {spread !== null && spread.total > spread.ranks.length && (
        <li class="legend-note">
          {spread.ranks.length} of {spread.total} ranks
        </li>
      )}
      {marks > 0 && <li class="legend-note is-bad">✕ {format.count(marks)} not finite</li>}
      {unplaced > 0 && <li class="legend-note">{format.count(unplaced)} not above 0, not drawn</li>}
    </ul>
  );
}

function Entry({ line, figure, solo, note }: { line: Line; figure: string | null; solo: Signal<string | null>; note: string }) {
  return (
    <li>
      <button type="button" class="legend-entry" aria-pressed={solo.value === line.key} title={solo.value === line.key ? "Show all" : "Show alone"} onClick={() => toggle(solo, line.key)}>
        <i class={`swatch line-${(line.color % 8) + 1} ${line.dashed === true ? "is-dashed" : ""}`} />
        {line.label}
        {note} {figure !== null && <span class="figure">{figure}</span>}
      </button>
    </li>
  );
}

/** The line that speaks for a chart: what was logged, before its smoothed course, before one that is shown alone. */
export function leadOf({ lines }: Picture): Line | undefined {
  return lines.find((line) => line.key === "raw") ?? lines.find((line) => line.key === "mean") ?? lines[0];
}

/** The cohort's own line stands first, also when it is drawn last, over the ranks. */
function leadFirst(lines: Line[]): Line[] {
  return [...lines].sort((a, b) => Number(b.key === "mean") - Number(a.key === "mean"));
}

function toggle(solo: Signal<string | null>, key: string): void {
  solo.value = solo.value === key ? null : key;
}

function countAt(entries: Entries, index: number | null): number {
  return entries.count[index === null || index < 0 ? entries.count.length - 1 : index] ?? 0;
}

/** The line's value at a place, or the nearest it has there: ranks need not log the same steps. */
function valueNear(line: Line, at: number): number | null {
  if (at < 0) return null;
  for (let distance = 0; distance <= NEIGHBOURS; distance++) {
    for (const i of [at - distance, at + distance]) {
      const value = line.values[i];
      if (value !== undefined) return value;
    }
  }
  return null;
}

export function lastValue(line: Line): number | null {
  for (let i = line.values.length - 1; i >= 0; i--) if (line.values[i] !== undefined) return line.values[i] ?? null;
  return null;
}

function bandText(picture: Picture, at: number): string {
  const low = picture.band?.low[at];
  const high = picture.band?.high[at];
  if (typeof low !== "number" || typeof high !== "number") return format.UNKNOWN;
  return low === high ? "all alike" : `${format.metric(low)}–${format.metric(high)}`;
}
