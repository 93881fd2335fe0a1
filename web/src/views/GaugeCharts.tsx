import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { aligned, drawable, type Picture } from "../charts/aligned";
import { Crosshair } from "../charts/crosshair";
import { useInView, usePrinting } from "../charts/inview";
import { PlotView } from "../charts/PlotView";
import * as format from "../lib/format";
import { byteTicks, numberTicks, percentTicks, type Ticks } from "../lib/ticks";
import { GAUGES, gaugeLines, type Gauge, type GaugeLine, type Unit } from "../state/gauges";
import { domainOf } from "../state/domain";
import { usePage } from "./context";
import { Legend } from "./Legend";

/** Curves of what samples have, over time. */
export function GaugeCharts() {
  const page = usePage();
  const crosshair = useMemo(() => new Crosshair(), []);
  const x = page.view.value.x === "time" ? "time" : "relative";
  const resources = page.resources.value;
  const origin = page.run.value?.started_at ?? 0;
  const path = page.path.value;
  const charts = useMemo(
    () => GAUGES.map((gauge) => ({ gauge, ...gaugeLines(resources, gauge, path, x, origin) })).filter(({ lines }) => lines.length > 0),
    [resources, path, x, origin],
  );
  return (
    <div class="grid">
      {charts.map(({ gauge, lines, total }) => (
        <GaugeChart key={gauge.key} gauge={gauge} lines={lines} total={total} crosshair={crosshair} x={x} />
      ))}
    </div>
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
      return (value) => `${format.tick(value)} ${unit}`;
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

function GaugeChart({ gauge, lines, total, crosshair, x }: { gauge: Gauge; lines: GaugeLine[]; total: number; crosshair: Crosshair; x: "time" | "relative" }) {
  const page = usePage();
  const ref = useRef<HTMLElement>(null);
  const isInView = useInView(ref);
  const isDrawn = usePrinting() || isInView;
  const solo = useSignal<string | null>(null);
  const index = useSignal<number | null>(null);
  const isSame = page.view.value.x === x;
  const range = (isSame ? page.view.value.zoom : null) ?? (isSame ? page.range.value : domainOf(page.model.value, x));
  const picture = useMemo(() => pictureOfLines(isDrawn ? lines : [], solo.value), [isDrawn, lines, solo.value, page.theme.value, page.scheme.value]);
  const yFormat = unitFormat(gauge.unit);
  const frame = useMemo(
    () => ({ xKind: x, range, at: null, yTicks: unitTicks(gauge.unit), inBytes: gauge.unit === "bytes" || gauge.unit === "bytes/s", yRange: gauge.unit === "ratio" ? ([0, 1] as const) : null }),
    [x, range[0], range[1]],
  );
  return (
    <article ref={ref} class="chart" aria-label={gauge.title}>
      <div class="chart-head">
        <h3 class="chart-name">{gauge.title}</h3>
        <span class="chart-unit">{gauge.of === "host" ? "by host" : "by rank"}{total > lines.length && ` · ${lines.length} of ${format.count(total)}, the most different among them`}</span>
      </div>
      {isDrawn && (
        <>
          <Legend picture={picture} index={index.value} solo={solo} values={yFormat} />
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

function pictureOfLines(lines: GaugeLine[], solo: string | null): Picture {
  const table = aligned(lines.map((line) => ({ x: line.x, values: drawable(line.values, false) })));
  const all = lines.map((line, i) => ({
    key: line.key,
    label: line.label,
    values: table.values[i] ?? [],
    color: i % 8,
    width: 1.4,
    alpha: 1,
    dashed: i % 16 > 7,
  }));
  const shown = solo === null ? all : all.filter((line) => line.key === solo);
  return { x: table.x, lines: shown.length > 0 ? shown : all, band: null, marks: [], log: false };
}
