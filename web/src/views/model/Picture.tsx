import type { ComponentChildren } from "preact";
import { safe, save } from "../../lib/save";
import { usePage } from "../context";
import { Empty } from "../Empty";
import { Icon } from "../Icon";
import { Name } from "../Name";

/** The user's drawing, shown as an image: nothing in it can run. */
export function Picture({ other }: { other: ComponentChildren }) {
  const page = usePage();
  const run = page.run.value;
  const svg = page.svg.value;
  const label = run?.label ?? null;
  return (
    <section class="panel" aria-label="Model">
      <header class="panel-head">
        <h2>Model</h2>
        {label !== null && <Name class="panel-note" text={label} />}
        {other}
        {svg !== null && (
          <button type="button" class="chip" onClick={() => save(`${safe(run?.name ?? "run")}-model.svg`, "image/svg+xml", svg)}>
            <Icon name="down" /> SVG
          </button>
        )}
      </header>
      {svg === null ? (
        <Empty title="The drawing is not here">The controller has not handed it out yet; it is asked again.</Empty>
      ) : (
        <div class="model-picture">
          <img src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`} alt={`Model${label === null ? "" : ` ${label}`}`} />
        </div>
      )}
    </section>
  );
}
