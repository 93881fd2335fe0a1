import * as format from "../../lib/format";
import { plain } from "../../lib/text";
import type { GraphDocument } from "../../wire/types.gen";
import { Icon } from "../Icon";
import { Name } from "../Name";

/** The whole model in a line: its name, its parameters, where its times come from. */
export function Facts({ graph }: { graph: GraphDocument }) {
  const { total, trainable, frozen, shared } = graph.parameters;
  const parts = [trainable === total ? "all trainable" : `${format.compact(trainable)} trainable, ${format.compact(frozen)} frozen`];
  if (shared > 0) parts.push(`${format.compact(shared)} shared`);
  return (
    <>
      {graph.label !== null && <Name class="panel-note" text={graph.label} />}
      <span class="panel-note figure" title={`${format.count(total)} parameters`}>
        {format.compact(total)} parameters, {parts.join(", ")}
      </span>
      <span class="panel-note figure">{timesText(graph)}</span>
    </>
  );
}

function timesText({ passes, timed_rank, on_device, recorded }: GraphDocument): string {
  if (!recorded) return "";
  if (passes === 0) return "not timed yet";
  const where = timed_rank === null ? "" : ` on rank ${timed_rank}`;
  return `mean of ${format.count(passes)} passes${where}, ${on_device ? "device" : "host"} clock`;
}

/** What is missing, and why. */
export function Notes({ graph }: { graph: GraphDocument }) {
  if (graph.recorded && graph.note === null) return null;
  return (
    <p class="model-note" role="note">
      <Icon name="info" />
      <span>
        {!graph.recorded && <strong>Only the module tree is known: no pass has been recorded. </strong>}
        {graph.note !== null && plain(graph.note)}
      </span>
    </p>
  );
}
