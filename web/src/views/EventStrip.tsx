import { useRef } from "preact/hooks";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import { severityRank } from "../state/events";
import type { Warning } from "../wire/types.gen";
import { usePage } from "./context";
import { Icon } from "./Icon";

/** The newest unresolved warning in one line; nothing when all is well. After the end the banner says how it ended, and Events keep the rest. */
export function EventStrip() {
  const page = usePage();
  const warnings = page.isOver.value ? [] : (page.run.value?.warnings ?? []).filter((warning) => warning.time > page.dismissed.value);
  const newest = [...warnings].sort((a, b) => severityRank(b.severity) - severityRank(a.severity) || b.time - a.time)[0];
  const dismiss = () => {
    page.dismissed.value = Math.max(...warnings.map((warning) => warning.time));
    document.querySelector<HTMLElement>("nav [aria-current=page]")?.focus(); // the button goes, and who used a key stays near
  };
  return (
    <>
      <Spoken warning={newest} />
      {newest !== undefined && (
        <aside class={`strip is-${newest.severity}`} aria-label="Newest warning">
          <Icon name={newest.severity} />
          <button type="button" class="strip-text" title="Show all events" onClick={() => page.show({ tab: "events" }, true)}>
            <span class="figure">{format.when(newest.time)}</span> <bdi>{plain(newest.text)}</bdi>
          </button>
          {warnings.length > 1 && <span class="strip-more">1 of {warnings.length}</span>}
          <button type="button" class="icon-button" aria-label="Dismiss" title="Until something new comes" onClick={dismiss}>
            <Icon name="close" />
          </button>
        </aside>
      )}
    </>
  );
}

/** A warning is read out once, when it is new, however often its figures change. */
function Spoken({ warning }: { warning: Warning | undefined }) {
  const said = useRef({ key: "", text: "" });
  const key = warning === undefined ? "" : `${warning.time} ${warning.path} ${warning.kind}`;
  if (key !== said.current.key) said.current = { key, text: warning === undefined ? "" : plain(warning.text) };
  return (
    <p class="spoken" aria-live="polite">
      {said.current.text || null}
    </p>
  );
}
