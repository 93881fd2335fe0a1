import { plain } from "../lib/text";
import { usePage } from "./context";
import { Icon } from "./Icon";

/** A chart's own switches: pin, log scale, ranks. */
export function ChartTools({ metric, canSpread }: { metric: string; canSpread: boolean }) {
  const page = usePage();
  const isPinned = page.pins.value.has(metric);
  const isLog = page.view.value.log.has(metric);
  const isSpread = page.view.value.ranks.has(metric);
  const name = plain(metric);
  return (
    <span class="chart-tools">
      {canSpread && (
        <button type="button" class="chip" aria-pressed={isSpread} title="Lay the ranks over it" aria-label={`Ranks of ${name}`} onClick={() => page.toggleSpread(metric)}>
          ranks
        </button>
      )}
      <button type="button" class="chip" aria-pressed={isLog} title="Logarithmic scale" aria-label={`Log scale of ${name}`} onClick={() => page.toggleLog(metric)}>
        log
      </button>
      <button
        type="button"
        class="icon-button is-small"
        aria-pressed={isPinned}
        aria-label={isPinned ? `Unpin ${name}` : `Pin ${name}`}
        title={isPinned ? "Unpin" : "Pin: first on the page"}
        onClick={() => page.togglePin(metric)}
      >
        <Icon name="pin" />
      </button>
    </span>
  );
}
