import { TABS, formatView, type Tab } from "../state/view";
import { usePage } from "./context";

const WORDS: Record<Tab, string> = {
  overview: "Overview",
  ranks: "Ranks",
  resources: "Resources",
  model: "Model",
  epochs: "Epochs",
  config: "Config",
  events: "Events",
};

/** The parts of the page, as links: each is a place of its own. */
export function Tabs() {
  const page = usePage();
  const { view, model } = page;
  const counts: Partial<Record<Tab, number>> = {
    ranks: page.ranks.value.length,
    epochs: model.value.epochs.length,
    events: model.value.events.length,
  };
  return (
    <nav class="tabs" aria-label="Parts">
      {TABS.map((tab) => (
        <a
          key={tab}
          href={formatView({ ...view.value, tab })}
          aria-current={view.value.tab === tab ? "page" : undefined}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            page.show({ tab }, true);
          }}
        >
          {WORDS[tab]}
          {(counts[tab] ?? 0) > 0 && <span class="tab-count">{counts[tab]}</span>}
        </a>
      ))}
    </nav>
  );
}
