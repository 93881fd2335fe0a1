import * as format from "../../lib/format";
import { plain } from "../../lib/text";
import { figure, shareOf, tensorText, valueOf, type Scale } from "../../state/graph/measure";
import { shortName, type Outline } from "../../state/graph/outline";
import type { GraphDocument, GraphNode, TensorSpec } from "../../wire/types.gen";
import { Name } from "../Name";

interface Props {
  graph: GraphDocument;
  outline: Outline;
  id: number;
  scale: Scale;
  onGo(id: number): void;
}

const TENSORS = 6;

/** All that is known of one module. */
export function Details({ graph, outline, id, scale, onGo }: Props) {
  const node = graph.nodes[id];
  if (node === undefined) return null;
  const share = shareOf(valueOf(node, scale.tint), scale);
  return (
    <aside class="details" aria-label="Module">
      <h3>
        <Name text={id === 0 ? "the whole model" : shortName(node)} title={node.name} />
      </h3>
      {id !== 0 && <p class="details-path">{plain(node.name)}</p>}
      <dl>
        <Fact term="type">
          <bdi>{plain(node.type)}</bdi>
        </Fact>
        <Fact term="share">{share === null ? format.UNKNOWN : `${format.percent(share, 1)} of the ${scale.tint}`}</Fact>
        <Times node={node} />
        <Fact term="memory">{node.memory === null ? format.UNKNOWN : `${format.bytes(node.memory)} left by a forward`}</Fact>
        <Fact term="parameters">{parametersText(node)}</Fact>
        {node.buffers > 0 && <Fact term="buffers">{format.count(node.buffers)}</Fact>}
        {node.shared_with.length > 0 && (
          <Fact term="shared with">
            {node.shared_with.map((other) => (
              <button key={other} type="button" class="link" onClick={() => onGo(other)}>
                <Name text={graph.nodes[other]?.name ?? String(other)} />
              </button>
            ))}
          </Fact>
        )}
        <Fact term="calls">{node.calls === null ? "not recorded" : `${format.count(node.calls)} in the recorded pass`}</Fact>
        <Tensors term="takes" tensors={node.inputs} />
        <Tensors term="gives" tensors={node.outputs} />
        {(outline.below[id] ?? 0) > 0 && <Fact term="inside">{insideText(outline.below[id] ?? 0, node.hidden)}</Fact>}
      </dl>
    </aside>
  );
}

function Fact({ term, children }: { term: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd class="figure">{children}</dd>
    </div>
  );
}

function Times({ node }: { node: GraphNode }) {
  return (
    <>
      <Fact term="forward">{format.fine(node.forward_seconds)}</Fact>
      <Fact term="backward">{format.fine(node.backward_seconds)}</Fact>
    </>
  );
}

function Tensors({ term, tensors }: { term: string; tensors: TensorSpec[] }) {
  if (tensors.length === 0) return null;
  return (
    <Fact term={term}>
      {tensors.slice(0, TENSORS).map((tensor, i) => (
        <span key={i} class="tensor">
          {plain(tensorText(tensor))}
        </span>
      ))}
      {tensors.length > TENSORS && <span class="tensor">… {tensors.length - TENSORS} more</span>}
    </Fact>
  );
}

function parametersText({ parameters, trainable }: GraphNode): string {
  if (parameters === 0) return "none";
  if (trainable === parameters) return `${format.count(parameters)}, all trainable`;
  return `${format.count(parameters)}, ${trainable === 0 ? "all frozen" : `${format.count(parameters - trainable)} frozen`}`;
}

function insideText(below: number, hidden: number): string {
  const modules = `${format.count(below)} ${below === 1 ? "module" : "modules"}`;
  return hidden > 0 ? `${modules}, ${format.count(hidden)} of them not listed to bound the size` : modules;
}

/** A module for those who do not see it. */
export function spokenModule(node: GraphNode, scale: Scale): string {
  const value = valueOf(node, scale.tint);
  const share = shareOf(value, scale);
  const facts = [plain(shortName(node)), plain(node.type), value === null ? `${scale.tint} not known` : `${figure(value, scale.tint)} ${scale.tint}`];
  if (share !== null) facts.push(format.percent(share));
  return facts.join(", ");
}
