import type { Signal } from "@preact/signals";
import { filterOf } from "../../lib/text";
import { boxes, unfoldBelow, type Folds } from "../../state/graph/fold";
import type { Outline } from "../../state/graph/outline";
import { TINTS, type Tint } from "../../state/view";
import { Icon } from "../Icon";

interface Props {
  tint: Tint;
  tints: Tint[];
  onTint(tint: Tint): void;
  query: Signal<string>;
  found: number[];
  selected: number;
  onGo(id: number): void;
  outline: Outline;
  folds: Signal<Folds>;
  zoom: Signal<number>;
  onFit(): void;
  onSave(): void;
}

const STEP = 1.25;

/** Search, colour, folding, zoom, download. */
export function Tools({ tint, tints, onTint, query, found, selected, onGo, outline, folds, zoom, onFit, onSave }: Props) {
  const { problem } = filterOf(query.value);
  const all = unfoldBelow(outline, folds.value, 0);
  const isAllOpen = all.open.size === folds.value.open.size;
  const isWhole = boxes(outline, all).length === outline.nodes.length - 1;
  return (
    <div class="toolbar model-tools" role="toolbar" aria-label="Model">
      <label class="field is-search is-narrow">
        <Icon name="search" />
        <input
          type="search"
          value={query.value}
          placeholder="module or type"
          aria-label="Search modules"
          aria-invalid={problem !== null}
          title={problem ?? "Text anywhere in name or type, or a regular expression between slashes; Enter leads to the next"}
          onInput={(event) => (query.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            const next = nextOf(found, selected, event.shiftKey);
            if (event.key === "Enter" && next !== undefined) onGo(next);
          }}
        />
      </label>
      <span class="panel-note figure model-found" role="status">
        {query.value.trim() !== "" && foundText(found, selected)}
      </span>
      <span class="segments" role="group" aria-label="Coloured by">
        {TINTS.map((name) => (
          <button key={name} type="button" class="chip" aria-pressed={name === tint} disabled={!tints.includes(name)} title={tints.includes(name) ? undefined : `${name} is not known`} onClick={() => onTint(name)}>
            {name}
          </button>
        ))}
      </span>
      <span class="segments" role="group" aria-label="Folding">
        <button type="button" class="chip" disabled={isAllOpen} title={isWhole ? undefined : "As far as it can be drawn"} onClick={() => (folds.value = all)}>
          unfold all
        </button>
        <button type="button" class="chip" disabled={folds.value.open.size === 0} onClick={() => (folds.value = { open: new Set(), pages: new Map() })}>
          fold all
        </button>
      </span>
      <span class="segments" role="group" aria-label="Zoom">
        <button type="button" class="chip" aria-label="Smaller" onClick={() => (zoom.value = Math.max(0.15, zoom.value / STEP))}>
          −
        </button>
        <button type="button" class="chip" onClick={onFit}>
          fit
        </button>
        <button type="button" class="chip" aria-label="Larger" onClick={() => (zoom.value = Math.min(3, zoom.value * STEP))}>
          +
        </button>
      </span>
      <button type="button" class="chip" onClick={onSave}>
        <Icon name="down" /> SVG
      </button>
    </div>
  );
}

function nextOf(found: number[], selected: number, isBack: boolean): number | undefined {
  const place = found.indexOf(selected);
  if (place < 0) return isBack ? found[found.length - 1] : found[0];
  return found[(place + (isBack ? found.length - 1 : 1)) % found.length];
}

function foundText(found: number[], selected: number): string {
  const place = found.indexOf(selected);
  if (found.length === 0) return "none found";
  return place < 0 ? `${found.length} found` : `${place + 1} of ${found.length}`;
}
