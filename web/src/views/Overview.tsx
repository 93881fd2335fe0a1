import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { arrange } from "../charts/arrangement";
import { Crosshair } from "../charts/crosshair";
import { useInView } from "../charts/inview";
import { plain } from "../lib/text";
import { grouped, PINNED, type Members } from "../state/groups";
import { ChartBar } from "./ChartBar";
import { ChartCard } from "./ChartCard";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { Enlarged } from "./Enlarged";
import { Icon } from "./Icon";
import { Standings } from "./Standings";
import { Why } from "./Why";

/** All charts, and beside them who is slow. */
export function Overview() {
  const page = usePage();
  const hasRanks = page.ranks.value.length > 0;
  return (
    <div class={`overview ${hasRanks ? "" : "is-alone"}`}>
      <section class="charts" aria-label="Charts">
        {page.metricNames.value.length > 0 && <ChartBar />}
        <Groups />
      </section>
      {hasRanks && (
        <div class="side">
          <Why />
          <Standings />
        </div>
      )}
    </div>
  );
}

function Groups() {
  const page = usePage();
  const crosshair = useMemo(() => new Crosshair(), []);
  const names = page.metricNames.value;
  const { filter } = page.view.value;
  const pins = page.pins.value;
  const groups = useMemo(() => grouped(names, filter, pins), [names, filter, pins]);
  if (names.length === 0) return <NoMetrics />;
  return (
    <>
      {groups.length > 0 ? <Arranged groups={groups} crosshair={crosshair} /> : <NoMatch count={names.length} />}
      <Enlarged crosshair={crosshair} />
    </>
  );
}

function NoMatch({ count }: { count: number }) {
  return <Empty title="No metric matches">Change the filter, or clear it to see all {count} metrics.</Empty>;
}

/** What stands above the charts on an ordinary page: what is below it is in view. */
const ABOVE_PX = 290;

function Arranged({ groups, crosshair }: { groups: Members[]; crosshair: Crosshair }) {
  const box = useRef<HTMLDivElement>(null);
  const room = useSignal<readonly [number, number]>([0, 0]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const look = () => {
      const now = [element.clientWidth, innerHeight - ABOVE_PX] as const;
      if (now[0] !== room.value[0] || now[1] !== room.value[1]) room.value = now;
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    window.addEventListener("resize", look);
    look();
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", look);
    };
  }, []);
  const [width, height] = room.value;
  const { columns, plot } = arrange(groups.map(({ metrics }) => metrics.length), width, height);
  return (
    <div ref={box} class="groups" style={{ "--columns": columns, "--plot-height": `${plot}px` }}>
      {groups.map(({ name, metrics: members }) => (
        <Group key={name} name={name} metrics={members} span={Math.min(columns, members.length)} crosshair={crosshair} />
      ))}
    </div>
  );
}

interface GroupProps extends Members {
  /** How many charts stand side by side. */
  span: number;
  crosshair: Crosshair;
}

function Group({ name, metrics, span, crosshair }: GroupProps) {
  const page = usePage();
  const isFolded = page.folded.value.has(name);
  const title = name === PINNED ? "pinned" : name === "" ? "metrics" : plain(name);
  return (
    <section class="group" aria-label={title} style={{ "--span": span }}>
      <h2 class="group-head">
        <button type="button" aria-expanded={!isFolded} onClick={() => page.toggleFold(name)}>
          <Icon name="chevron" class={isFolded ? "" : "is-open"} />
          <bdi>{title}</bdi>
          <span class="group-count">{metrics.length}</span>
        </button>
      </h2>
      {!isFolded && partsOf(metrics, span * ROWS).map((part) => <Part key={part[0]} names={part} rows={Math.ceil(part.length / span)} crosshair={crosshair} />)}
    </section>
  );
}

/** Rows of charts that are laid out, watched and skipped together: of hundreds each alone would cost every frame. */
const ROWS = 4;

function Part({ names, rows, crosshair }: { names: string[]; rows: number; crosshair: Crosshair }) {
  const ref = useRef<HTMLDivElement>(null);
  const isNear = useInView(ref);
  return (
    <div ref={ref} class="grid" style={{ "--rows": rows }}>
      {names.map((name) => (
        <ChartCard key={name} name={name} crosshair={crosshair} isNear={isNear} />
      ))}
    </div>
  );
}

function partsOf(names: string[], size: number): string[][] {
  return Array.from({ length: Math.ceil(names.length / size) }, (_, i) => names.slice(i * size, (i + 1) * size));
}

const LOG = 'mon.log({"loss": loss})';

function NoMetrics() {
  const page = usePage();
  const { run } = page;
  if (run.value === null) return null;
  if (run.value.state === "waiting") return <Empty title="Charts come with the first value">Any number, from any rank: <code>{LOG}</code></Empty>;
  if (page.isOver.value) return <Empty title="No metric was logged">Events and Config hold what is known.</Empty>;
  return (
    <Empty title="No metric yet">
      Any number, from any rank: <code>{LOG}</code>
    </Empty>
  );
}
