import type { Signal } from "@preact/signals";
import type { Line, Picture } from "../charts/aligned";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import type { GaugeLine } from "../state/gauges";

interface Props {
  picture: Picture;
  lines: GaugeLine[];
  /** Of which these are some. */
  total: number;
  of: "host" | "rank";
  /** Into the picture's x; null: the newest. */
  index: number | null;
  solo: Signal<string | null>;
  isOpen: Signal<boolean>;
  isEach: boolean;
  values(value: number): string;
}

/** Few lines by name; of many those that stand out, and what the others have. Asked for, all of them. */
export function GaugeLegend({ picture, lines, total, of, index, solo, isOpen, isEach, values }: Props) {
  const drawn = new Map(picture.lines.map((line) => [line.key, line]));
  const named = lines.filter((line) => isEach || line.isOdd);
  const rest = lines.filter((line) => !named.includes(line));
  const read = (line: GaugeLine) => valueAt(drawn.get(line.key), index);
  const word = named.length > 0 ? "others" : `${total > lines.length ? "" : `${rest.length} `}${of}s`;
  const range = rest.map(read).filter((value): value is number => value !== null);
  return (
    <ul class="gauge-legend">
      {named.map((line) => {
        const value = read(line);
        const { color = 0, dashed = false } = drawn.get(line.key) ?? {};
        return (
          <li key={line.key}>
            <button type="button" class="legend-entry" aria-pressed={solo.value === line.key} title={solo.value === line.key ? "Show all" : "Show alone"} onClick={() => (solo.value = solo.value === line.key ? null : line.key)}>
              <i class={`swatch line-${color + 1} ${dashed ? "is-dashed" : ""}`} />
              {plain(line.label)} <span class="figure">{value === null ? format.UNKNOWN : values(value)}</span>
            </button>
          </li>
        );
      })}
      {rest.length > 0 && solo.value === null && (
        <li>
          <button type="button" class="legend-entry" aria-expanded="false" title="Show each by name" onClick={() => (isOpen.value = true)}>
            <i class="swatch line-1" />
            {word} <span class="figure">{rangeText(range, values)}</span>
          </button>
        </li>
      )}
      {isOpen.value && (
        <li>
          <button type="button" class="legend-entry is-all" aria-expanded="true" onClick={() => (isOpen.value = false)}>
            fewer names
          </button>
        </li>
      )}
    </ul>
  );
}

function rangeText(range: number[], values: (value: number) => string): string {
  if (range.length === 0) return format.UNKNOWN;
  const [low, high] = [values(Math.min(...range)), values(Math.max(...range))];
  return low === high ? low : `${low} – ${high}`;
}

/** The line's value at a place, or the last one before it. */
function valueAt(line: Line | undefined, index: number | null): number | null {
  if (line === undefined) return null;
  const isNow = index === null || index < 0;
  for (let i = isNow ? line.values.length - 1 : index; i >= 0; i--) {
    const value = line.values[i];
    if (value === undefined || (isNow && value === null)) continue;
    return value;
  }
  return null;
}
