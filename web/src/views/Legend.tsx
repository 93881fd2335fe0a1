import type { Signal } from "@preact/signals";
import type { Column, Line, Picture } from "../charts/aligned";
import * as format from "../lib/format";
import type { Entries } from "../state/columns";
import { countAt, type Spread, type Tellers } from "../state/spread";

interface Props {
  picture: Picture;
  index: number | null;
  solo: Signal<string | null>;
  /** Of the cohort, for how many ranks stand behind the mean. */
  entries?: Entries;
  /** Who told it: an entry of many steps counts each of their values. */
  tellers?: Tellers;
  /** The line whose value stands above the legend already. */
  lead?: Line | undefined;
  /** How many values a log scale has no place for. */
  unplaced?: number;
  spread?: Spread | null;
  /** Points drawn and logged, where fewer are kept than were logged. */
  kept?: readonly [number, number] | null;
  marks?: number;
  values?: (value: number) => string;
}

const NEIGHBOURS = 6;

/** What is drawn, each with its value at the crosshair; a click shows it alone, again shows all. */
export function Legend({ picture, index, solo, entries, tellers, lead, unplaced = 0, spread = null, kept = null, marks = 0, values = format.metric }: Props) {
  const at = index ?? picture.x.length - 1;
  const hasBand = picture.band !== null || solo.value !== null;
  const who = entries === undefined || tellers === undefined ? "" : whose(tellers, countAt(entries, index === null ? undefined : picture.x[index], tellers.living));
  const isSmoothed = picture.lines.some((line) => line.key === "raw");
  return (
    <ul class="legend">
      {marks > 0 && <li class="legend-note is-bad">✕ {badHere(picture, index) ?? `${format.count(marks)} not finite`}</li>}
      {unplaced > 0 && <li class="legend-note">{format.count(unplaced)} not above 0, not drawn</li>}
      {leadFirst(picture.lines).map((line) => {
        if (line.key === "raw") return null; // the reading above says its value
        const value = index === null ? lastValue(line) : valueNear(line.values, at);
        const note = line.key !== "mean" ? "" : `${who}${isSmoothed ? ", smoothed" : ""}`;
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
      {kept !== null && (
        <li class="legend-note" title="The run folder has them all: trackside view">
          {format.count(kept[0])} of {format.count(kept[1])} points kept
        </li>
      )}
    </ul>
  );
}

function Entry({ line, figure, solo, note }: { line: Line; figure: string | null; solo: Signal<string | null>; note: string }) {
  return (
    <li class={line.key === "mean" ? "is-mean" : ""}>
      <button type="button" class="legend-entry" aria-pressed={solo.value === line.key} title={solo.value === line.key ? "Show all" : "Show alone"} onClick={() => toggle(solo, line.key)}>
        <i class={`swatch line-${(line.color % 8) + 1} ${line.dashed === true ? "is-dashed" : ""}`} />
        <span class="legend-label">
          {line.label}
          {note}
        </span>{" "}
        {figure !== null && <span class="figure">{figure}</span>}
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

/** What is not finite under the crosshair: a mean is of the finite values there. */
function badHere({ x, marks }: Picture, index: number | null): string | null {
  const here = index === null ? [] : marks.filter((mark) => mark.x === x[index]);
  return here.length === 0 ? null : `${here.map(({ what }) => SIGNS[what]).join(" and ")} here`;
}

const SIGNS = { NaN: "NaN", Infinity: "+Inf", "-Infinity": "−Inf" };

/** Whose values a curve is made of: of all who tell it, or of how many where some do not. */
function whose({ count, only }: Tellers, here: number): string {
  if (count <= 1) return only === null ? "" : ` of rank ${only}`;
  return here === 0 || here >= count ? ` of ${count} ranks` : ` of ${here} of ${count} ranks`;
}

function toggle(solo: Signal<string | null>, key: string): void {
  solo.value = solo.value === key ? null : key;
}

/** A column's value at a place, or the nearest it has there: ranks need not log the same steps. */
export function valueNear(values: Column, at: number): number | null {
  if (at < 0) return null;
  for (let distance = 0; distance <= NEIGHBOURS; distance++) {
    for (const i of [at - distance, at + distance]) {
      const value = values[i];
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
  const low = valueNear(picture.band?.low ?? [], at);
  const high = valueNear(picture.band?.high ?? [], at);
  if (low === null || high === null) return format.UNKNOWN;
  return low === high ? "all alike" : `${format.metric(low)}–${format.metric(high)}`;
}
