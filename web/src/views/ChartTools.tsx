import type { ComponentChildren } from "preact";
import { plain } from "../lib/text";
import { usePage } from "./context";
import { Icon } from "./Icon";

export type Kind = "csv" | "svg" | "png";

const KINDS: [Kind, string][] = [
  ["csv", "What is drawn, as a table"],
  ["svg", "The chart as a drawing"],
  ["png", "The chart as a picture"],
];

interface Props {
  metric: string;
  canSpread: boolean;
  /** Given where the chart is enlarged. */
  onSave?(kind: Kind): void;
}

/** A chart's own switches: ranks, log scale, size, pin. An enlarged one can be saved. */
export function ChartTools({ metric, canSpread, onSave }: Props) {
  const page = usePage();
  const { log, ranks } = page.view.value;
  const isPinned = page.pins.value.has(metric);
  const name = plain(metric);
  return (
    <span class="chart-tools">
      {canSpread && (
        <Tool label={`Ranks of ${name}`} title="Lay the ranks over it" isOn={ranks.has(metric)} onClick={() => page.toggleSpread(metric)}>
          ranks
        </Tool>
      )}
      <Tool label={`Log scale of ${name}`} title="Logarithmic scale" isOn={log.has(metric)} onClick={() => page.toggleLog(metric)}>
        log
      </Tool>
      {onSave !== undefined &&
        KINDS.map(([kind, title]) => (
          <Tool key={kind} label={`Save ${name} as ${kind.toUpperCase()}`} title={title} onClick={() => onSave(kind)}>
            <Icon name="down" /> {kind.toUpperCase()}
          </Tool>
        ))}
      <button type="button" class="icon-button is-small" aria-pressed={isPinned} aria-label={isPinned ? `Unpin ${name}` : `Pin ${name}`} title={isPinned ? "Unpin" : "Pin: first on the page"} onClick={() => page.togglePin(metric)}>
        <Icon name="pin" />
      </button>
      {onSave === undefined && (
        <button type="button" class="icon-button is-small" aria-label={`Enlarge ${name}`} title="Enlarge" onClick={() => page.enlarge(metric)}>
          <Icon name="enlarge" />
        </button>
      )}
    </span>
  );
}

interface ToolProps {
  label: string;
  title: string;
  isOn?: boolean;
  onClick(): void;
  children: ComponentChildren;
}

function Tool({ label, title, isOn, onClick, children }: ToolProps) {
  return (
    <button type="button" class="chip" aria-pressed={isOn} title={title} aria-label={label} onClick={onClick}>
      {children}
    </button>
  );
}
