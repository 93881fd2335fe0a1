import { useComputed, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { arranging } from "../../charts/arranging";
import { svgFile } from "../../charts/svgfile";
import { safe, save } from "../../lib/save";
import { atStart, reveal, toggle, turnPage, type Folds } from "../../state/graph/fold";
import { flowsOf } from "../../state/graph/flows";
import { knownTints, scaleOf } from "../../state/graph/measure";
import { ancestors, found as foundIn, outlineOf, type Outline } from "../../state/graph/outline";
import { sceneOf, type Arrange, type Scene } from "../../state/graph/scene";
import { wrapped } from "../../state/graph/wrap";
import type { GraphDocument } from "../../wire/types.gen";
import { usePage } from "../context";
import { Costliest } from "./Costliest";
import { Details } from "./Details";
import { Drawing } from "./Drawing";
import { moved } from "./keys";
import { Legend } from "./Legend";
import { Facts, Notes } from "./Facts";
import { Tools } from "./Tools";

/** The modules that really ran, in execution order, coloured by what they cost. */
export function ModelGraph({ graph, other }: { graph: GraphDocument; other: ComponentChildren }) {
  const page = usePage();
  const structure = `${graph.hash} ${graph.recorded} ${graph.nodes.length} ${graph.edges.length}`;
  const outline = useMemo(() => outlineOf(graph), [structure]);
  const flows = useMemo(() => flowsOf(outline, graph.edges), [outline]);
  const selected = useMemo(() => Math.max(0, outline.nodes.findIndex(({ name }) => name !== "" && name === page.view.value.module)), [outline, page.view.value.module]);
  const folds = useFolds(outline, structure, selected);
  const arrange = useArrange();
  const scene = useMemo(() => (arrange === null ? null : sceneOf(outline, flows, folds.value, arrange)), [outline, flows, folds.value, arrange]);
  const tints = knownTints(graph);
  const tint = page.view.value.tint ?? tints[0] ?? "parameters";
  const scale = useMemo(() => scaleOf(graph, (scene?.boxes ?? []).filter(({ isFrame }) => !isFrame).map(({ id }) => id), tint), [graph, scene, tint]);
  const query = useSignal("");
  const found = useMemo(() => foundIn(outline, query.value), [outline, query.value]);
  const foundSet = useMemo(() => new Set(found), [found]);
  const pointed = useSignal<number | null>(null);
  const lit = useLit(pointed, selected);
  const view = useView(scene);
  const select = (id: number) => page.show({ module: graph.nodes[id]?.name ?? "" });
  const go = (id: number) => {
    pointed.value = null;
    folds.value = reveal(outline, folds.value, id);
    select(id);
    view.focusNext(id, false);
  };
  return (
    <section class="panel model" aria-label="Model">
      <header class="panel-head">
        <h2>Model</h2>
        <Facts graph={graph} />
        {other}
      </header>
      <Notes graph={graph} />
      <Tools
        tint={tint}
        tints={tints}
        onTint={(next) => page.show({ tint: next })}
        query={query}
        found={found}
        selected={selected}
        onGo={go}
        outline={outline}
        folds={folds}
        zoom={view.zoom}
        onFit={view.fit}
        onSave={() => {
          const svg = view.svg.current;
          if (svg !== null) save(`${safe(page.run.value?.name ?? "run")}-model.svg`, "image/svg+xml", svgFile(svg, getComputedStyle(svg).backgroundColor));
        }}
      />
      <div class="model-body">
        <div ref={view.box} class="model-scene" role="region" aria-label="Drawing" tabIndex={0}>
          {scene === null ? (
            <p class="model-wait">laying out …</p>
          ) : (
            <Drawing
              graph={graph}
              outline={outline}
              scene={scene}
              scale={scale}
              zoom={view.zoom.value}
              selected={selected}
              found={foundSet}
              foundInside={countedInside(outline, scene, found)}
              pointed={pointed}
              lit={lit}
              svg={view.svg}
              onPick={(id) => {
                if ((outline.children[id] ?? []).length > 0) folds.value = toggle(folds.value, id);
                select(id);
                view.focusNext(id, true);
              }}
              onKey={(event, id) => {
                if (event.key === "Escape") return select(0);
                const move = moved(event.key, id, outline, folds.value);
                if (move === null) return;
                event.preventDefault();
                folds.value = move.folds;
                select(move.to);
                view.focusNext(move.to, true);
              }}
              onMore={({ parent, by }) => (folds.value = turnPage(folds.value, parent, by))}
            />
          )}
        </div>
        <div class="model-side">
          <Legend scale={scale} graph={graph} />
          <Pointed pointed={pointed} selected={selected}>
            {(id) => <Details graph={graph} outline={outline} id={id} scale={scale} onGo={go} />}
          </Pointed>
          <Costliest graph={graph} outline={outline} scale={scale} onGo={go} />
        </div>
      </div>
    </section>
  );
}

function Pointed({ pointed, selected, children }: { pointed: Signal<number | null>; selected: number; children(id: number): ComponentChildren }) {
  return <>{children(pointed.value ?? selected)}</>;
}

/** Whose flows stand out: of what one points at, else of what is selected. */
function useLit(pointed: Signal<number | null>, selected: number) {
  const chosen = useSignal(selected);
  useEffect(() => void (chosen.value = selected), [selected]);
  return useComputed(() => pointed.value ?? chosen.value);
}

/** Folds last while the page does; a module named in the address is in view from the start. */
function useFolds(outline: Outline, structure: string, selected: number): Signal<Folds> {
  const page = usePage();
  const kept = page.folds;
  if (kept.value.structure !== structure) {
    const first = atStart(outline);
    kept.value = { structure, ...(selected > 0 ? reveal(outline, first, selected) : first) };
  }
  return useMemo(
    () =>
      ({
        get value() {
          return kept.value;
        },
        set value(next: Folds) {
          kept.value = { structure, ...next };
        },
      }) as Signal<Folds>,
    [structure],
  );
}

/** The layout, once it is there; without it modules still stand in order. */
function useArrange(): Arrange | null {
  const [arrange, setArrange] = useState<Arrange | null>(null);
  useEffect(() => {
    const careful = (made: Arrange): Arrange => (level) => {
      try {
        return made(level);
      } catch {
        return wrapped(level);
      }
    };
    arranging().then(
      (made) => setArrange(() => careful(made)),
      () => setArrange(() => wrapped),
    );
  }, []);
  return arrange;
}

function countedInside(outline: Outline, scene: Scene, found: number[]): Map<number, number> {
  const drawn = new Map(scene.boxes.map((box) => [box.id, box]));
  const counts = new Map<number, number>();
  for (const id of found) {
    const holder = ancestors(outline, id).find((up) => drawn.get(up)?.isFrame === false);
    if (holder !== undefined) counts.set(holder, (counts.get(holder) ?? 0) + 1);
  }
  return counts;
}

/** As wide as there is room; larger than life only where the whole is seen then. */
function atFirst(forWidth: number, forHeight: number): number {
  return forWidth <= 1 ? forWidth : Math.max(1, Math.min(forWidth, forHeight));
}

const CLOSEST = 1.5;
const FARTHEST = 0.15;
const READABLE = 0.6;

/** How much of the scene is seen, and where the focus goes when it has been drawn anew. */
function useView(scene: Scene | null) {
  const box = useRef<HTMLDivElement>(null);
  const svg = useRef<SVGSVGElement>(null);
  const zoom = useSignal(1);
  const isFitted = useRef(false);
  const next = useRef<{ id: number; isFocus: boolean } | null>(null);
  const room = (least: number) => {
    const width = box.current?.clientWidth ?? 0;
    if (scene === null || width === 0) return 1;
    return Math.max(least, Math.min(CLOSEST, (width - 4) / (scene.width + 32)));
  };
  useLayoutEffect(() => {
    if (scene === null) return;
    if (!isFitted.current) zoom.value = atFirst(room(READABLE), (box.current?.clientHeight ?? 0) / (scene.height + 40));
    isFitted.current = true;
  }, [scene]);
  useLayoutEffect(() => {
    if (next.current === null) return;
    const element = svg.current?.querySelector<SVGElement>(`[data-id="${next.current.id}"]`);
    if (element === null || element === undefined) return;
    if (next.current.isFocus) element.focus({ preventScroll: true });
    intoView(box.current, element);
    next.current = null;
  });
  return {
    box,
    svg,
    zoom,
    fit: () => (zoom.value = Math.max(FARTHEST, Math.min(room(FARTHEST), ((box.current?.clientHeight ?? 600) - 8) / ((scene?.height ?? 1) + 32)))),
    focusNext: (id: number, isFocus: boolean) => (next.current = { id, isFocus }),
  };
}

/** Scrolls the drawing, never the page. */
function intoView(box: HTMLElement | null, element: Element): void {
  if (box === null) return;
  const outer = box.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  const edge = 24;
  if (inner.left < outer.left + edge || inner.width > outer.width) box.scrollLeft += inner.left - outer.left - edge;
  else if (inner.right > outer.right - edge) box.scrollLeft += inner.right - outer.right + edge;
  if (inner.top < outer.top + edge || inner.height > outer.height) box.scrollTop += inner.top - outer.top - edge;
  else if (inner.bottom > outer.bottom - edge) box.scrollTop += inner.bottom - outer.bottom + edge;
}
