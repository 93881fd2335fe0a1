import { filterOf } from "../lib/text";
import { AXES } from "../state/view";
import type { XAxis } from "../wire/types.gen";
import { usePage } from "./context";
import { Icon } from "./Icon";

const AXIS_WORDS: Record<XAxis, string> = { step: "step", epoch: "epoch", time: "wall time", relative: "since start" };

/** How all charts are seen: filter, x axis, smoothing, band, zoom. */
export function ChartBar() {
  const page = usePage();
  const { filter, x, smooth, band, zoom, at } = page.view.value;
  const { problem } = filterOf(filter);
  return (
    <div class="toolbar" role="toolbar" aria-label="Charts">
      <label class="field is-search">
        <Icon name="search" />
        <input
          type="search"
          value={filter}
          placeholder="filter, or /regex/"
          aria-label="Filter metrics"
          aria-invalid={problem !== null}
          title={problem ?? "Text anywhere in the name, or a regular expression between slashes"}
          onInput={(event) => page.show({ filter: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        <span>x</span>
        <select value={x} aria-label="x axis" onChange={(event) => page.show({ x: axisOf(event.currentTarget.value), zoom: null, at: null }, true)}>
          {AXES.map((axis) => (
            <option key={axis} value={axis}>
              {AXIS_WORDS[axis]}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>smooth</span>
        <input
          type="range"
          min={0}
          max={0.98}
          step={0.02}
          value={smooth}
          aria-label="Smoothing"
          onInput={(event) => page.show({ smooth: Number(event.currentTarget.value) })}
        />
        <span class="field-value figure">{smooth === 0 ? "off" : smooth.toFixed(2)}</span>
      </label>
      <label class="field is-check">
        <input type="checkbox" checked={band} onChange={(event) => page.show({ band: event.currentTarget.checked })} />
        <span>band</span>
      </label>
      {(zoom !== null || at !== null) && (
        <button type="button" class="chip" onClick={() => page.show({ zoom: null, at: null }, true)}>
          {zoom !== null ? "show all of x" : "remove mark"}
        </button>
      )}
    </div>
  );
}

function axisOf(text: string): XAxis {
  return AXES.find((axis) => axis === text) ?? "step";
}
