import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { Page } from "../state/page";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { ModelGraph } from "./model/ModelGraph";
import { Picture } from "./model/Picture";

const EVERY_MS = 5000;
/** Asking takes at most a twentieth of the time. */
const SPARING = 20;

/** The model: the user's own drawing when one was set, else the graph of what really ran. */
export function Model() {
  const page = usePage();
  const run = page.run.value;
  const hasGraph = run?.has_graph === true || page.graph.value !== null;
  const hasPicture = run?.has_svg === true || (page.svg.value !== null && page.svg.value !== "");
  const prefersGraph = useSignal(page.view.peek().module !== "");
  useGraph(page, hasGraph);
  useEffect(() => {
    if (hasPicture) void page.requests.svg().catch(() => undefined);
  }, [hasPicture, page.svg.value === null && run]); // it is cleaned first: asked for again with each new state until it is there
  if (!hasGraph && !hasPicture) {
    return (
      <Empty title="No model">
        <code>mon.watch(model)</code> shows its modules, the tensors between them and what each costs. <code>mon.set_svg(svg)</code> shows a drawing of your own.
      </Empty>
    );
  }
  const isGraph = hasGraph && (!hasPicture || prefersGraph.value);
  const other = hasGraph && hasPicture ? <Switch isGraph={isGraph} onSwitch={(wish) => (prefersGraph.value = wish)} /> : null;
  if (!isGraph) return <Picture other={other} />;
  const graph = page.graph.value;
  if (graph === null) return <Empty title="The graph is on its way">It is asked for again every few seconds.</Empty>;
  return <ModelGraph graph={graph} other={other} />;
}

function Switch({ isGraph, onSwitch }: { isGraph: boolean; onSwitch(wish: boolean): void }) {
  return (
    <span class="segments" role="group" aria-label="Show">
      <button type="button" class="chip" aria-pressed={!isGraph} onClick={() => onSwitch(false)}>
        drawing
      </button>
      <button type="button" class="chip" aria-pressed={isGraph} onClick={() => onSwitch(true)}>
        graph
      </button>
    </span>
  );
}

/** The graph is asked for when the tab is opened, and again for its times while the run goes on. */
function useGraph(page: Page, hasGraph: boolean): void {
  const isLive = page.mode === "live" && !page.isOver.value;
  useEffect(() => {
    if (!hasGraph || page.mode !== "live") return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isLeft = false;
    const ask = async () => {
      const began = performance.now();
      if (!document.hidden) await page.requests.graph().catch(() => undefined);
      if (isLive && !isLeft) timer = setTimeout(() => void ask(), Math.max(EVERY_MS, (performance.now() - began) * SPARING));
    };
    void ask();
    return () => {
      isLeft = true;
      clearTimeout(timer);
    };
  }, [hasGraph, isLive]);
}
