import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { heatLayout, paintHeat } from "../charts/heatmap";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import { GAUGES, unitOf } from "../state/gauges";
import { heatOf, type HeatRow } from "../state/heat";
import { spreadOf } from "../state/spread";
import { ordered } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";
import { usePage } from "./context";
import { unitFormat } from "./GaugeCharts";
import { leadMetric } from "./Learning";

const COLUMNS = 240;
const RANK_GAUGES = GAUGES.filter((gauge) => gauge.of === "rank");

/** A row a rank, time to the right: the row that is different is seen at once. */
export function HeatMap() {
  const page = usePage();
  const lead = leadMetric(page.metricNames.value);
  const choice = useSignal(page.mode === "report" ? "gpu" : "own step");
  const ranks = useMemo(() => ordered(page.ranks.value, { column: "rank", descending: false }), [page.ranks.value]);
  useEffect(() => void page.requests.resources("root").catch(() => undefined), []);
  const rows = useRows(choice.value, ranks, lead);
  const heat = useMemo(() => heatOf(rows, COLUMNS), [rows]);
  const show = valueFormat(choice.value);
  const pointed = useSignal<{ row: number; column: number } | null>(null);
  const cell = pointed.value;
  const value = cell === null ? null : (heat?.cells[cell.row]?.[cell.column] ?? null);
  return (
    <section class="panel heat" aria-label="Heat map">
      <header class="panel-head">
        <h2>Heat map</h2>
        <label class="field">
          <select value={choice.value} aria-label="Gauge" onChange={(event) => (choice.value = event.currentTarget.value)}>
            {page.mode === "live" && (
              <>
                <option value="own step">own step time</option>
                <option value="data wait">data wait</option>
              </>
            )}
            {RANK_GAUGES.map((gauge) => (
              <option key={gauge.key} value={gauge.key}>
                {gauge.title}
              </option>
            ))}
            {lead !== null && <option value="metric">{plain(lead)}</option>}
          </select>
        </label>
        <span class="panel-note">
          {heat?.odd != null && (
            <>
              ▲ rank {heat.odd.rank} differs most: {show(heat.odd.mean)}, usual {show(heat.odd.usual)}
            </>
          )}
        </span>
        {heat !== null && (
          <span class="heat-scale figure">
            {show(heat.low)} <i aria-hidden="true" /> {show(heat.high)}
          </span>
        )}
      </header>
      {heat === null ? (
        <p class="heat-none">{noneWords(choice.value)}</p>
      ) : (
        <HeatCanvas heat={heat} pointed={pointed} onPick={(row) => page.show({ path: row.path, tab: "overview" }, true)} />
      )}
      <p class="heat-reading figure" aria-live="off">
        {cell !== null && heat !== null
          ? `rank ${heat.rows[cell.row]?.rank ?? ""} · ${format.clock(heat.from + ((cell.column + 0.5) / (heat.cells[0]?.length ?? 1)) * (heat.to - heat.from))} since start · ${value === null ? "no value" : show(value)}`
          : "point at a cell to read it, click a row to descend"}
      </p>
    </section>
  );
}

function noneWords(choice: string): string {
  if (choice === "own step" || choice === "data wait") return "Step times are gathered while this page is open; nothing has come yet.";
  return "No rank has reported this.";
}

function valueFormat(choice: string): (value: number) => string {
  if (choice === "own step" || choice === "data wait") return (value) => format.duration(value);
  const unit = unitOf(choice);
  return unit === null ? (value) => format.metric(value) : unitFormat(unit);
}

/** Where a gauge's rows come from: samples, what the page saw of the ranks, or the ranks' own curves. */
function useRows(choice: string, ranks: RankEntry[], lead: string | null): HeatRow[] {
  const page = usePage();
  const { resources, ranksAt } = page.model.value;
  const origin = page.run.value?.started_at ?? 0;
  const curves = useMemo(
    () => (choice === "metric" && lead !== null ? spreadOf(ranks).ranks.map((rank) => ({ rank, curve: page.curves.get(lead, rank.path, "relative") })) : []),
    [choice, lead, ranks.map((rank) => rank.path).join("\n")],
  );
  useEffect(() => {
    const leave = curves.map(({ curve }) => page.curves.use(curve));
    return () => leave.forEach((stop) => stop());
  }, [curves]);
  const versions = curves.map(({ curve }) => curve.changed.value);
  return useMemo(() => {
    if (choice === "metric") {
      return curves.map(({ rank, curve }) => {
        const { entries } = curve.view(null, origin);
        return { rank: rank.rank, path: rank.path, x: entries.x, values: entries.mean };
      });
    }
    if (choice === "own step" || choice === "data wait") return page.history.rows(ranks, choice);
    const gauge = RANK_GAUGES.find(({ key }) => key === choice);
    const rows = new Map<number, HeatRow>(ranks.map((rank) => [rank.rank, { rank: rank.rank, path: rank.path, x: [], values: [] }]));
    for (const record of resources) {
      const row = record.rank === null ? undefined : rows.get(record.rank);
      const value = gauge?.read(record) ?? null;
      if (row === undefined || value === null) continue;
      row.x.push(record.time - origin);
      row.values.push(value);
    }
    return [...rows.values()];
  }, [choice, ranks.length, choice === "metric" ? versions.join() : choice.includes(" ") ? ranksAt : resources, origin]);
}

interface CanvasProps {
  heat: NonNullable<ReturnType<typeof heatOf>>;
  pointed: { value: { row: number; column: number } | null };
  onPick(row: HeatRow): void;
}

function HeatCanvas({ heat, pointed, onPick }: CanvasProps) {
  const page = usePage();
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const layout = heatLayout(heat.rows.length, width);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current !== null && width > 0) paintHeat(canvas.current, heat, layout, format.clock);
  }, [heat, width, page.theme.value, page.scheme.value]);
  const locate = (event: MouseEvent) => {
    const columns = heat.cells[0]?.length ?? 1;
    const row = Math.floor(event.offsetY / layout.rowHeight);
    const column = Math.floor(((event.offsetX - layout.left) / layout.width) * columns);
    return row < heat.rows.length && column >= 0 && column < columns ? { row, column } : null;
  };
  return (
    <div ref={box} class="heat-box" style={{ height: `${layout.height}px` }}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Heat map of ${heat.rows.length} ranks over time${heat.odd === null ? "" : `; rank ${heat.odd.rank} differs most`}`}
        style={{ width: `${width}px`, height: `${layout.height}px` }}
        onMouseMove={(event) => (pointed.value = locate(event))}
        onMouseLeave={() => (pointed.value = null)}
        onClick={(event) => {
          const place = locate(event);
          const row = place === null ? undefined : heat.rows[place.row];
          if (row !== undefined) onPick(row);
        }}
      />
    </div>
  );
}
