import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { arrange } from "../charts/arrangement";
import { Crosshair } from "../charts/crosshair";
import { filterOf, groupOf, plain } from "../lib/text";
import type { MetricEntry } from "../wire/types.gen";
import { ChartBar } from "./ChartBar";
import { ChartCard } from "./ChartCard";
import { usePage } from "./context";
import { Empty } from "./Empty";
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

const PINNED = "\u0000pinned";

function Groups() {
  const page = usePage();
  const crosshair = useMemo(() => new Crosshair(), []);
  const metrics = page.metrics.value;
  const { filter } = page.view.value;
  const pins = page.pins.value;
  const range = page.range.value;
  const groups = useMemo(() => grouped(metrics, filter, pins), [metrics, filter, pins]);
  if (metrics.length === 0) return <NoMetrics />;
  if (groups.length === 0) return <Empty title="No metric matches">Change the filter, or clear it to see all {metrics.length} metrics.</Empty>;
  return <Arranged groups={groups} crosshair={crosshair} range={range} />;
}

/** What stands above the charts on an ordinary page: what is below it is in view. */
const ABOVE_PX = 290;

function Arranged({ groups, crosshair, range }: { groups: { name: string; metrics: MetricEntry[] }[]; crosshair: Crosshair; range: readonly [number, number] }) {
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
        <Group key={name} name={name} metrics={members} span={Math.min(columns, members.length)} crosshair={crosshair} range={range} />
      ))}
    </div>
  );
}

interface GroupProps {
  name: string;
  metrics: MetricEntry[];
  /** How many charts stand side by side. */
  span: number;
  crosshair: Crosshair;
  range: readonly [number, number];
}

function Group({ name, metrics, span, crosshair, range }: GroupProps) {
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
      {!isFolded && (
        <div class="grid">
          {metrics.map((metric) => (
            <ChartCard key={metric.name} metric={metric} crosshair={crosshair} range={range} />
          ))}
        </div>
      )}
    </section>
  );
}

/** Pinned first, then what has no group, then the groups in the order of their first metric. */
export function grouped(metrics: MetricEntry[], query: string, pins: ReadonlySet<string>): { name: string; metrics: MetricEntry[] }[] {
  const filter = filterOf(query);
  const groups = new Map<string, MetricEntry[]>([
    [PINNED, []],
    ["", []],
  ]);
  for (const metric of metrics) {
    if (!filter.matches(metric.name)) continue;
    const group = pins.has(metric.name) ? PINNED : groupOf(metric.name);
    groups.set(group, [...(groups.get(group) ?? []), metric]);
  }
  return [...groups].filter(([, members]) => members.length > 0).map(([name, members]) => ({ name, metrics: members }));
}

const LOG = 'mon.log({"loss": loss})';

function NoMetrics() {
  const page = usePage();
  const { run } = page;
  if (run.value === null) return null;
  if (run.value.state === "waiting") return <Empty title="Charts come with the first value">Any number, from any rank: <code>{LOG}</code></Empty>;
  if (page.isOver.value) return <Empty title="No metric was logged">Nothing was logged before the run ended. Events and Config hold what is known.</Empty>;
  return (
    <Empty title="No metric yet">
      The ranks are here and have logged nothing so far. Log any number, on any rank: <code>{LOG}</code>
    </Empty>
  );
}
