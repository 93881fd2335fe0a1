import { useEffect, useRef } from "preact/hooks";
import { TABS, formatView, type Tab } from "../state/view";
import { usePage } from "./context";
import { useScrollHint } from "./ScrollBox";

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
  // With the address of the document: a link to a mere fragment that is scrolled out of sight passes for one that skips.
  const here = location.href.split("#")[0] ?? "";
  const bar = useRef<HTMLElement>(null);
  useScrollHint(bar);
  useEffect(() => {
    const show = () => bringIntoView(bar.current);
    show();
    addEventListener("resize", show);
    return () => removeEventListener("resize", show);
  }, [view.value.tab]);
  return (
    <nav ref={bar} class="tabs scroll-box" aria-label="Parts">
      {TABS.map((tab) => (
        <a
          key={tab}
          href={`${here}${formatView({ ...view.value, tab })}`}
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

/** Scrolls the bar, never the page, until the tab that is open can be seen whole with a part of its neighbour. */
function bringIntoView(bar: HTMLElement | null): void {
  const tab = bar?.querySelector<HTMLElement>("[aria-current=page]");
  if (bar === null || tab === null || tab === undefined) return;
  const left = tab.offsetLeft - bar.offsetLeft;
  const peek = 36;
  if (left - peek < bar.scrollLeft) bar.scrollLeft = left - peek;
  else if (left + tab.offsetWidth + peek > bar.scrollLeft + bar.clientWidth) bar.scrollLeft = left + tab.offsetWidth + peek - bar.clientWidth;
}
