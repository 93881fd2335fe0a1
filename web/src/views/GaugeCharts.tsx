import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { aligned, drawable, type Column, type Picture } from "../charts/aligned";
import { Crosshair } from "../charts/crosshair";
import { useInView, usePrinting } from "../charts/inview";
import { PlotView } from "../charts/PlotView";
import * as format from "../lib/format";
import { byteTicks, numberTicks, percentTicks, type Ticks } from "../lib/ticks";
import { GAUGES, gaugeLines, snapped, valuesOf, type Gauge, type GaugeLine, type Unit } from "../state/gauges";
import { domainOf } from "../state/domain";
import { isWithin } from "../state/view";
import { usePage } from "./context";
import { GaugeLegend } from "./GaugeLegend";

/** Curves of what samples have, over time; one kind of hardware after the other. */
export function GaugeCharts() {
  const page = usePage();
  const crosshair = useMemo(() => new Crosshair(), []);
  const path = page.path.value;
  void page.sampled.value;
  const tracks = [...page.samples.tracks.values()];
  const isThere = (gauge: Gauge) =>
    tracks.some((track) => (track.rank !== null) === (gauge.of === "rank") && (isWithin(track.path, path) || (gauge.of === "host" && track.path !== "root" && isWithin(path, track.path))) && valuesOf(track, gauge) !== null);
  const charts = GAUGES.filter(isThere);
  return (
    <>
      {[...new Set(charts.map((gauge) => gauge.group))].map((group) => (
        <section key={group} class="gauges" aria-label={group}>
          <h2>{group}</h2>
          <div class="grid">
            {charts.map((gauge) => gauge.group === group && <GaugeChart key={gauge.key} gauge={gauge} crosshair={crosshair} />)}
          </div>
        </section>
      ))}
    </>
  );
}

export function unitFormat(unit: Unit): (value: number) => string {
  switch (unit) {
    case "ratio":
      return (value) => format.percent(value);
    case "bytes":
      return (value) => format.bytes(value);
    case "bytes/s":
      return (value) => `${format.bytes(value)}/s`;
    case "°C":
    case "W":
      return (value) => `${Math.round(value)} ${unit}`;
  }
}

function unitTicks(unit: Unit): Ticks {
  const also = (ticks: Ticks, sign: string): Ticks => (values, step) => ticks(values, step).map((label) => (label === "0" ? label : `${label}${sign}`));
  switch (unit) {
    case "ratio":
      return percentTicks;
    case "bytes":
      return byteTicks;
    case "bytes/s":
      return also(byteTicks, "/s");
    case "°C":
    case "W":
      return also(numberTicks, ` ${unit}`);
  }
}

/** So many lines each have a colour; of more those that stand out do. */
const COLORED = 4;
const MOMENTS = 400;

function GaugeChart({ gauge, crosshair }: { gauge: Gauge; crosshair: Crosshair }) {
  const page = usePage();
  const ref = useRef<HTMLElement>(null);
  const isInView = useInView(ref);
  const isDrawn = usePrinting() || isInView;
  const solo = useSignal<string | null>(null);
  const isOpen = useSignal(false);
  const index = useSignal<number | null>(null);
  const x: "time" | "relative" = page.view.value.x === "time" ? "time" : "relative";
  const isSame = page.view.value.x === x;
  const range = (isSame ? page.view.value.zoom : null) ?? (isSame ? page.range.value : domainOf(page.model.value, x));
  const origin = page.run.value?.started_at ?? 0;
  const { lines, total } = useMemo(() => {
    if (!isDrawn) return { lines: [], total: 0 };
    const found = gaugeLines(page.samples, gauge, page.path.value, x, origin);
    return found.lines.length > COLORED ? { ...found, lines: snapped(found.lines, MOMENTS) } : found;
  }, [isDrawn, page.sampled.value, page.path.value, x, origin]);
  const isEach = isOpen.value || lines.length <= COLORED;
  const picture = useMemo(() => pictureOfLines(lines, solo.value, isEach), [lines, solo.value, isEach, page.theme.value, page.scheme.value]);
  const yFormat = unitFormat(gauge.unit);
  const frame = useMemo(
    () => ({ xKind: x, range, at: null, yTicks: unitTicks(gauge.unit), inBytes: gauge.unit === "bytes" || gauge.unit === "bytes/s", yRange: gauge.unit === "ratio" ? ([0, 1] as const) : null, resumed: page.resumed(x) }),
    [x, range[0], range[1], origin, page.resumes.value],
  );
  return (
    <article ref={ref} class="chart" aria-label={gauge.title}>
      <div class="chart-head">
        <h3 class="chart-name">{gauge.title}</h3>
        <span class="chart-unit" title={total > lines.length ? "Those that differ most, and some of the others" : undefined}>
          by {gauge.of}{total > lines.length && lines.length > 0 && ` · ${lines.length} of ${format.count(total)}`}
        </span>
      </div>
      {isDrawn && (
        <>
          <GaugeLegend picture={picture} lines={lines} total={total} of={gauge.of} index={index.value} solo={solo} isOpen={isOpen} isEach={isEach} values={yFormat} />
          <PlotView
            picture={picture}
            frame={frame}
            crosshair={crosshair}
            label={`${gauge.title}: ${lines.length} lines. Arrow keys move the crosshair.`}
            onPoint={(point) => (index.value = point)}
            onZoom={(from, to) => page.show({ x, zoom: [from, to] })}
            onReset={() => page.zoomTo(null)}
            onKeys={() => undefined}
          />
        </>
      )}
    </article>
  );
}

/** `isEach`: every line has a colour of its own; else those that stand out do, before the others in one. */
function pictureOfLines(lines: GaugeLine[], solo: string | null, isEach: boolean): Picture {
  const table = aligned(lines.map((line) => ({ x: line.x, values: drawable(line.values, false) })));
  let odd = 0;
  const all = lines.map((line, i) => ({
    key: line.key,
    label: line.label,
    values: parted(table.values[i] ?? []),
    color: isEach ? i % 8 : line.isOdd ? (odd += 1) : 0,
    width: !isEach && line.isOdd ? 2 : 1.4,
    alpha: isEach || line.isOdd ? 1 : 0.45,
    dashed: isEach && i % 16 > 7,
  }));
  const shown = solo === null ? all : all.filter((line) => line.key === solo);
  const drawn = shown.length > 0 ? shown : all;
  return { x: table.x, lines: isEach ? drawn : drawn.sort((a, b) => a.color - b.color), band: null, marks: [], log: false };
}

/** A gap reaches from the value before it to the one behind it, also where other lines have values in between. */
function parted(values: Column): Column {
  let from = -1;
  let isGap = false;
  const out = [...values];
  values.forEach((value, i) => {
    if (value === null) isGap = true;
    if (value === null || value === undefined) return;
    if (isGap && from >= 0) out.fill(null, from + 1, i);
    from = i;
    isGap = false;
  });
  return out;
}
