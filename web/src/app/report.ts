// The page inside a report: all data is in the document, and no connection is opened.

import { bakedSource } from "../state/baked";
import { Page } from "../state/page";
import { asBaked } from "../wire/guards";

/** The page over the data in this document, or null when there is none: then it is live. */
export function reportPage(): Page | null {
  const text = document.getElementById("trackside-data")?.textContent?.trim();
  if (text === undefined || text === "") return null;
  const baked = asBaked(JSON.parse(text));
  const source = bakedSource(baked.series, baked.run.started_at);
  const nothing = () => Promise.resolve();
  const requests = { resources: nothing, heat: nothing, graph: nothing, svg: nothing };
  const page = new Page("report", source, requests, baked.written_at);
  const at = performance.now();
  page.change([
    { kind: "complete", run: baked.run, at },
    { kind: "ranks", ranks: baked.ranks, at },
    { kind: "metrics", metrics: baked.metrics },
    { kind: "epochs", epochs: baked.epochs },
    { kind: "events", events: baked.events },
    { kind: "resources", records: baked.resources },
  ]);
  page.heat.value = baked.heat;
  page.graph.value = baked.graph;
  page.svg.value = baked.svg;
  page.curves.frozen = true;
  return page;
}
