import * as format from "../lib/format";
import { plain } from "../lib/text";
import { severityRank } from "../state/events";
import { usePage } from "./context";
import { Icon } from "./Icon";

/** The newest unresolved warning in one line; nothing when all is well. */
export function EventStrip() {
  const page = usePage();
  const warnings = (page.run.value?.warnings ?? []).filter((warning) => warning.time > page.dismissed.value);
  const newest = [...warnings].sort((a, b) => severityRank(b.severity) - severityRank(a.severity) || b.time - a.time)[0];
  // After the end the banner says how it ended; Events keep the rest.
  if (newest === undefined || page.isOver.value) return null;
  return (
    <aside class={`strip is-${newest.severity}`} aria-label="Newest warning">
      <Icon name={newest.severity} />
      <button type="button" class="strip-text" title="Show all events" onClick={() => page.show({ tab: "events" }, true)}>
        <span class="figure">{format.when(newest.time)}</span> <bdi>{plain(newest.text)}</bdi>
      </button>
      {warnings.length > 1 && <span class="strip-more">1 of {warnings.length}</span>}
      <button
        type="button"
        class="icon-button"
        aria-label="Dismiss"
        title="Dismiss until something new comes"
        onClick={() => (page.dismissed.value = Math.max(...warnings.map((warning) => warning.time)))}
      >
        <Icon name="close" />
      </button>
    </aside>
  );
}
