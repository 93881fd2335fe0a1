import { useEffect, useState } from "preact/hooks";
import * as format from "../lib/format";
import { save } from "../lib/save";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { safe } from "./Epochs";
import { Icon } from "./Icon";
import { Name } from "./Name";

/** The model's picture, shown as an image: nothing in it can run. */
export function Model() {
  const page = usePage();
  const run = page.run.value;
  const hasPicture = run !== null && (run.has_svg || run.has_graph);
  const svg = useSvg(hasPicture);
  const url = svg === null || svg === "" ? null : `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  if (!hasPicture) {
    return (
      <Empty title="No drawing of the model">
        <code>mon.set_svg(svg)</code> shows a drawing of it. <code>mon.watch(model)</code> names it in the header and counts its parameters under Config.
      </Empty>
    );
  }
  return (
    <section class="panel" aria-label="Model">
      <header class="panel-head">
        <h2>Model</h2>
        {run.label !== null && <Name class="panel-note" text={run.label} />}
        <Parameters />
        {svg !== null && (
          <button type="button" class="chip" onClick={() => save(`${safe(run.name)}-model.svg`, "image/svg+xml", svg)}>
            <Icon name="down" /> SVG
          </button>
        )}
      </header>
      {url !== null && (
        <div class="model-picture">
          <img src={url} alt={`Model${run.label === null ? "" : ` ${run.label}`}`} />
        </div>
      )}
      {url === null && <Empty title="The picture is not here">The controller has not handed it out; it is asked again when this tab is opened.</Empty>}
    </section>
  );
}

/** Counts that `watch` adds to the metadata. */
function Parameters() {
  const metadata = usePage().run.value?.metadata;
  if (typeof metadata !== "object" || metadata === null || !("parameters" in metadata)) return null;
  const { parameters } = metadata;
  if (typeof parameters !== "object" || parameters === null) return null;
  const facts = Object.entries(parameters).filter((fact): fact is [string, number] => typeof fact[1] === "number");
  if (facts.length === 0) return null;
  return <span class="panel-note">parameters: {facts.map(([name, value]) => `${name} ${format.count(value)}`).join(" · ")}</span>;
}

function useSvg(isThere: boolean): string | null {
  const page = usePage();
  const [svg, setSvg] = useState<string | null>(null);
  useEffect(() => {
    if (isThere && svg === null) void page.requests.svg().then(setSvg);
  }, [isThere]);
  return svg;
}
