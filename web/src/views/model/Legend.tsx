import { figure, type Scale } from "../../state/graph/measure";
import type { GraphDocument } from "../../wire/types.gen";

const MEANS = {
  time: "forward and backward of a pass",
  parameters: "parameters, children included",
  memory: "memory that a forward leaves",
};

/** What colour and bars stand for. */
export function Legend({ scale, graph }: { scale: Scale; graph: GraphDocument }) {
  const { tint, most, whole } = scale;
  if (most === null) {
    return (
      <p class="model-legend">
        {tint === "time" && graph.recorded ? "No times yet: the first passes are left out as warm-up." : `No ${tint} is known.`}
      </p>
    );
  }
  return (
    <div class="model-legend" role="group" aria-label="Legend">
      <span class="figure">{figure(0, tint)}</span>
      <i class={`scale scale-${tint}`} aria-hidden="true" />
      <span class="figure">{figure(most, tint)}</span>
      <span class="model-means">{MEANS[tint]}</span>
      {whole !== null && (
        <span class="model-means">
          <i class={`bar-sample bar-${tint}`} aria-hidden="true" /> share of the whole, {figure(whole, tint)}
        </span>
      )}
    </div>
  );
}
