import { fitted } from "../../charts/fit";
import { plain } from "../../lib/text";
import { figure, shareOf, strength, valueOf, type Scale } from "../../state/graph/measure";
import { shortName, type Outline } from "../../state/graph/outline";
import type { Box } from "../../state/graph/scene";
import type { GraphDocument, GraphNode } from "../../wire/types.gen";
import { spokenModule } from "./Details";

const EDGE = 10;
const BOLD = "600 12px system-ui, sans-serif";
const LIGHT = "11px system-ui, sans-serif";
const FIGURE_PX = 58;
const STRONGEST = 34;
const CHEVRON = "m0-4 4 4-4 4Z";

export interface BoxProps {
  box: Box;
  graph: GraphDocument;
  outline: Outline;
  scale: Scale;
  isSelected: boolean;
  /** The one that Tab leads to. */
  isStop: boolean;
  isFound: boolean;
  /** Found in what it folds away. */
  foundInside: number;
}

/** One module: a box, or a frame around what is in it. */
export function ModuleBox(props: BoxProps) {
  const { box, graph, outline, scale, isSelected, isStop, isFound } = props;
  const node = graph.nodes[box.id];
  if (node === undefined) return null;
  const hasInside = (outline.children[box.id] ?? []).length > 0;
  const siblings = outline.children[node.parent ?? 0] ?? [];
  return (
    <g
      class={`module ${box.isFrame ? "is-frame" : ""} ${isSelected ? "is-selected" : ""} ${isFound ? "is-found" : ""}`}
      role="treeitem"
      tabindex={isStop ? 0 : -1}
      data-id={box.id}
      aria-level={box.depth}
      aria-setsize={siblings.length}
      aria-posinset={siblings.indexOf(box.id) + 1}
      aria-selected={isSelected}
      {...(hasInside ? { "aria-expanded": box.isFrame } : {})}
      transform={`translate(${box.x} ${box.y})`}
    >
      <title>{spokenModule(node, scale)}</title>
      <g aria-hidden="true">{box.isFrame ? <Frame {...props} node={node} /> : <Plain {...props} node={node} hasInside={hasInside} />}</g>
    </g>
  );
}

function Frame({ box, scale, node }: BoxProps & { node: GraphNode }) {
  const value = valueOf(node, scale.tint);
  const room = box.width - 2 * EDGE - 14 - FIGURE_PX;
  const name = fitted(plain(shortName(node)), room, BOLD);
  const type = fitted(plain(node.type), Math.max(24, room - name.length * 7.5), LIGHT);
  return (
    <>
      <rect class="frame" width={box.width} height={box.height} rx="10" />
      <path class="chevron" d={CHEVRON} transform={`translate(${EDGE + 4} 15) rotate(90) translate(-2 0)`} />
      <text class="module-name" x={EDGE + 14} y="19">
        {name}
        <tspan class="module-type" dx="7">
          {type}
        </tspan>
      </text>
      <text class="module-figure" x={box.width - EDGE} y="19">
        {value === null ? "" : figure(value, scale.tint)}
      </text>
    </>
  );
}

function Plain({ box, outline, scale, node, hasInside, foundInside }: BoxProps & { node: GraphNode; hasInside: boolean }) {
  const value = valueOf(node, scale.tint);
  const tint = strength(value, scale) ?? 0;
  const share = shareOf(value, scale) ?? 0;
  const left = EDGE + (hasInside ? 12 : 0);
  const right = box.width - EDGE;
  const inside = foundInside > 0 ? `${foundInside} found` : hasInside ? `${(outline.below[box.id] ?? 0).toString()} inside` : (node.calls ?? 1) > 1 ? `× ${node.calls}` : "";
  return (
    <>
      {hasInside && <rect class="behind" x="4" y="4" width={box.width - 8} height={box.height} rx="7" />}
      <rect class="ground" width={box.width} height={box.height} rx="7" />
      <rect class={`tint tint-${scale.tint}`} width={box.width} height={box.height} rx="7" style={{ fillOpacity: (tint * STRONGEST) / 100 }} />
      <rect class="edge" x="0.5" y="0.5" width={box.width - 1} height={box.height - 1} rx="6.5" />
      {hasInside && <path class="chevron" d={CHEVRON} transform={`translate(${EDGE} 14)`} />}
      <text class="module-name" x={left} y="18">
        {fitted(plain(shortName(node)), right - left - FIGURE_PX, BOLD)}
      </text>
      <text class="module-figure" x={right} y="18">
        {value === null ? "" : figure(value, scale.tint)}
      </text>
      <text class="module-type" x={left} y="34">
        {fitted(plain(node.type), right - left - (inside === "" ? 0 : 62), LIGHT)}
      </text>
      <text class={`module-inside ${foundInside > 0 ? "is-found" : ""}`} x={right} y="34">
        {inside}
      </text>
      {share > 0 && <rect class="track" x={EDGE} y="41" width={box.width - 2 * EDGE} height="3.5" rx="1.5" />}
      {share > 0 && <rect class={`bar bar-${scale.tint}`} x={EDGE} y="41" width={Math.max(1.5, share * (box.width - 2 * EDGE))} height="3.5" rx="1.5" />}
    </>
  );
}
