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
  spread?: Spread | null;
  marks?: number;
  values?: (value: number) => string;
}

const NEIGHBOURS = 6;

/** What is drawn, each with its value at the crosshair; a click shows it alone, again shows all. */
export function Legend({ picture, index, solo, entries, spread = null, marks = 0, values = format.metric }: Props) {
  const at = index ?? picture.x.length - 1;
  const hasBand = picture.band !== null || solo.value !== null;
  const count = entries === undefined ? 0 : countAt(entries, index);
  return (
    <ul class="legend">
      {leadFirst(picture.lines).map((line) =>
        line.key === "raw" ? null : <Entry key={line.key} values={values} line={line} value={index === null ? lastValue(line) : valueNear(line, at)} solo={solo} note={line.key === "mean" && count > 1 ? ` of ${count}` : ""} />,
      )}
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
    </ul>
  );
}

function Entry({ line, value, solo, note, values }: { values(value: number): string; line: Line; value: number | null; solo: Signal<string | null>; note: string }) {
  return (
    <li>
      <button type="button" class="legend-entry" aria-pressed={solo.value === line.key} title={solo.value === line.key ? "Show all" : "Show alone"} onClick={() => toggle(solo, line.key)}>
        <i class={`swatch line-${(line.color % 8) + 1} ${line.dashed === true ? "is-dashed" : ""}`} />
        {line.label}
        {note} <span class="figure">{value === null ? format.UNKNOWN : values(value)}</span>
      </button>
    </li>
  );
}

/** The cohort's own line stands first, also when it is drawn last, over the ranks. */
function leadFirst(lines: Line[]): Line[] {
  return [...lines].sort((a, b) => Number(b.key === "mean") - Number(a.key === "mean"));
}

function toggle(solo: Signal<string | null>, key: string): void {
  solo.value = solo.value === key ? null : key;
}

function countAt(entries: Entries, index: number | null): number {
  return entries.count[index ?? entries.count.length - 1] ?? 0;
}

/** The line's value at a place, or the nearest it has there: ranks need not log the same steps. */
function valueNear(line: Line, at: number): number | null {
  for (let distance = 0; distance <= NEIGHBOURS; distance++) {
    for (const i of [at - distance, at + distance]) {
      const value = line.values[i];
      if (value !== undefined) return value;
    }
  }
  return null;
}

function lastValue(line: Line): number | null {
  for (let i = line.values.length - 1; i >= 0; i--) if (line.values[i] !== undefined) return line.values[i] ?? null;
  return null;
}

function bandText(picture: Picture, at: number): string {
  const low = picture.band?.low[at];
  const high = picture.band?.high[at];
  if (typeof low !== "number" || typeof high !== "number") return format.UNKNOWN;
  return low === high ? "all alike" : `${format.metric(low)}–${format.metric(high)}`;
}
