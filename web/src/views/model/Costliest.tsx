import * as format from "../../lib/format";
import { plain } from "../../lib/text";
import { costliest, figure, shareOf, valueOf, type Scale } from "../../state/graph/measure";
import type { Outline } from "../../state/graph/outline";
import type { GraphDocument } from "../../wire/types.gen";
import { Name } from "../Name";

const MOST = 8;

/** The modules that cost most by themselves, whichever are unfolded. */
export function Costliest({ graph, outline, scale, onGo }: { graph: GraphDocument; outline: Outline; scale: Scale; onGo(id: number): void }) {
  const ids = costliest(graph, outline, scale.tint, MOST);
  if (ids.length < 2) return null;
  return (
    <section class="costliest" aria-label="Costliest">
      <h3>Most {scale.tint}</h3>
      <ol>
        {ids.map((id) => {
          const node = graph.nodes[id];
          if (node === undefined) return null;
          const value = valueOf(node, scale.tint);
          const share = shareOf(value, scale);
          return (
            <li key={id}>
              <button type="button" class="link" title={plain(node.type)} onClick={() => onGo(id)}>
                <Name text={node.name} />
              </button>
              <span class="figure">{figure(value, scale.tint)}</span>
              <span class="figure costliest-share">{format.percent(share, 1)}</span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
