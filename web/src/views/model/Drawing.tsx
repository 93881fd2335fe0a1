import type { ReadonlySignal, Signal } from "@preact/signals";
import type { MutableRef } from "preact/hooks";
import { polyline } from "../../charts/polyline";
import * as format from "../../lib/format";
import { plain } from "../../lib/text";
import { tensorText, type Scale } from "../../state/graph/measure";
import type { Outline } from "../../state/graph/outline";
import { BOX, MORE_HEIGHT, type More, type Route, type Scene } from "../../state/graph/scene";
import type { GraphDocument } from "../../wire/types.gen";
import { ModuleBox } from "./Boxes";

interface Props {
  graph: GraphDocument;
  outline: Outline;
  scene: Scene;
  scale: Scale;
  zoom: number;
  selected: number;
  found: ReadonlySet<number>;
  /** By folded module: how many are found in it. */
  foundInside: ReadonlyMap<number, number>;
  pointed: Signal<number | null>;
  /** Whose flows stand out. */
  lit: ReadonlySignal<number>;
  svg: MutableRef<SVGSVGElement | null>;
  onPick(id: number): void;
  onKey(event: KeyboardEvent, id: number): void;
  onMore(more: More): void;
}

const MARGIN = 16;

/** The scene as SVG: frames, the tensors between modules, boxes. One tree for keys and screen readers. */
export function Drawing(props: Props) {
  const { graph, outline, scene, scale, zoom, selected, found, foundInside, pointed, lit, svg, onPick, onKey, onMore } = props;
  const width = scene.width + 2 * MARGIN;
  const height = scene.height + 2 * MARGIN;
  const stop = scene.boxes.some(({ id }) => id === selected) ? selected : scene.boxes[0]?.id;
  const box = (at: Scene["boxes"][number]) => (
    <ModuleBox
      key={at.id}
      box={at}
      graph={graph}
      outline={outline}
      scale={scale}
      isSelected={at.id === selected}
      isStop={at.id === stop}
      isFound={found.has(at.id)}
      foundInside={foundInside.get(at.id) ?? 0}
    />
  );
  return (
    <svg
      ref={svg}
      class="model-svg"
      width={width * zoom}
      height={height * zoom}
      viewBox={`${-MARGIN} ${-MARGIN} ${width} ${height}`}
      role="presentation"
      onPointerMove={(event) => (pointed.value = idOf(event.target))}
      onPointerLeave={() => (pointed.value = null)}
      onClick={(event) => {
        const id = idOf(event.target);
        if (id !== null) onPick(id);
      }}
      onKeyDown={(event) => {
        const id = idOf(event.target);
        if (id !== null) onKey(event, id);
      }}
    >
      <defs>
        <Arrow id="flow-end" class="flow-end" />
        <Arrow id="flow-end-lit" class="flow-end is-lit" />
      </defs>
      <g role="tree" aria-label="Modules in execution order">
        {scene.boxes.filter(({ isFrame }) => isFrame).map(box)}
        <Flows routes={scene.routes} ports={scene.ports} graph={graph} lit={lit} />
        {scene.boxes.filter(({ isFrame }) => !isFrame).map(box)}
      </g>
      {scene.more.map((more) => (
        <MoreBox key={`${more.parent} ${more.by}`} more={more} onMore={onMore} />
      ))}
    </svg>
  );
}

/** The module that an event belongs to, or null. */
function idOf(target: EventTarget | null): number | null {
  const owner = target instanceof Element ? target.closest<SVGElement>("[data-id]") : null;
  return owner === null ? null : Number(owner.dataset["id"]);
}

function Arrow({ id, class: name }: { id: string; class: string }) {
  return (
    <marker id={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
      <path class={name} d="M0 0.8 7.2 4 0 7.2Z" />
    </marker>
  );
}

function Flows({ routes, ports, graph, lit }: { routes: Route[]; ports: Scene["ports"]; graph: GraphDocument; lit: ReadonlySignal<number> }) {
  const id = lit.value;
  const isLit = ({ flow }: Route) => id > 0 && (flow.source === id || flow.target === id || flow.from === id || flow.to === id);
  return (
    <g aria-hidden="true">
      {routes.map((route, i) => (
        <path key={i} class={`flow ${isLit(route) ? "is-lit" : ""}`} d={polyline(route.points)} marker-end={`url(#flow-end${isLit(route) ? "-lit" : ""})`} style={{ strokeWidth: Math.min(4, 1.3 + Math.log2(route.flow.count)) }}>
          <title>{flowText(route, graph)}</title>
        </path>
      ))}
      {ports.map(([x, y], i) => (
        <circle key={i} class="port" cx={x} cy={y} r="3" />
      ))}
    </g>
  );
}

function flowText({ flow }: Route, { nodes }: GraphDocument): string {
  const name = (id: number) => plain(nodes[id]?.name || nodes[id]?.type || "");
  const tensor = flow.tensor === null ? "" : `: ${plain(tensorText(flow.tensor))}`;
  const others = flow.count > 1 ? ` and ${format.count(flow.count - 1)} more` : "";
  return `${name(flow.from)} → ${name(flow.to)}${tensor}${others}`;
}

function MoreBox({ more, onMore }: { more: More; onMore(more: More): void }) {
  const words = `${format.count(more.count)} ${more.by > 0 ? "more after" : "before"}`;
  return (
    <g
      class="more"
      role="button"
      tabindex={0}
      aria-label={words}
      transform={`translate(${more.x} ${more.y})`}
      onClick={() => onMore(more)}
      onKeyDown={(event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          onMore(more);
        }
      }}
    >
      <rect width={BOX.width} height={MORE_HEIGHT} rx="7" />
      <text x={BOX.width / 2} y="17">
        {more.by > 0 ? "▾" : "▴"} {words}
      </text>
    </g>
  );
}
