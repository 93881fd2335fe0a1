import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cellAt, cellBy, heatLayout, paintHeat, type Cell } from "../charts/heatmap";
import * as format from "../lib/format";
import { elapsed } from "../lib/ticks";
import { plain } from "../lib/text";
import { GAUGES, unitOf } from "../state/gauges";
import { heatOf, withOdd, type Heat, type HeatRow } from "../state/heat";
import type { Page } from "../state/page";
import { spreadOf } from "../state/spread";
import { isGone, ordered, ownStep } from "../state/standings";
import { isStepTime, stepRows } from "../state/steptimes";
import type { RankEntry } from "../wire/types.gen";
import { usePage } from "./context";
import { unitFormat } from "./GaugeCharts";
import { leadMetric } from "../state/groups";

const COLUMNS = 480;
/** Few ranks are told apart better with less of the noise. */
const FEW = 16;
const FEW_COLUMNS = 160;
const REFRESH_MS = 20_000;
const RANK_GAUGES = GAUGES.filter((gauge) => gauge.of === "rank");
const STEP_TITLES = { "own step": "own step time", "data wait": "data wait", "whole step": "step time with waiting" };

/** A row a rank, time to the right: the row that is different is seen at once. */
export function HeatMap() {
  const page = usePage();
  const lead = leadMetric(page.metricNames.value);
  const hasSteps = page.heat.value !== null || page.ranks.value.some((rank) => ownStep(rank) !== null);
  const chosen = useSignal<string | null>(null);
  const choice = chosen.value ?? (hasSteps ? "own step" : "gpu");
  const ranks = useMemo(() => ordered(page.ranks.value, { column: "rank", descending: false }), [page.ranks.value]);
  useEffect(() => void page.requests.resources("root").catch(() => undefined), []);
  useHeatAnswer(page, hasSteps);
  const rows = useRows(choice, ranks, lead);
  const blamed = choice === "whole step" || !isStepTime(choice) ? [] : ranks.filter((rank) => rank.verdict !== null);
  const known = blamed.length === 1 ? (blamed[0]?.rank ?? null) : null;
  const heat = useMemo(() => {
    const made = heatOf(rows, rows.length > FEW ? COLUMNS : FEW_COLUMNS, choice === "gpu");
    return made === null || known === null ? made : withOdd(made, known);
  }, [rows, known]);
  const show = valueFormat(choice);
  const pointed = useSignal<Cell | null>(null);
  return (
    <section class="panel heat" aria-label="Heat map">
      <header class="panel-head">
        <h2>Heat map</h2>
        <label class="field">
          <select value={choice} aria-label="Gauge" onChange={(event) => (chosen.value = event.currentTarget.value)}>
            <Options hasSteps={hasSteps} lead={lead} />
          </select>
        </label>
        <span class="panel-note">
          {heat?.odd != null && (
            <>
              ▸ rank {heat.odd.rank} differs most: {show(heat.odd.mean)}, {ranks.length === 2 ? "the other" : "usual"} {show(heat.odd.usual)}
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
        <p class="heat-none">{isStepTime(choice) ? "No step has been timed yet." : "No rank has reported this."}</p>
      ) : (
        <HeatCanvas heat={heat} pointed={pointed} show={show} onPick={(row) => page.show({ path: row.path, tab: "overview" }, true)} />
      )}
      <p class="heat-reading figure" role="status">
        {reading(heat, pointed.value, show)}
      </p>
    </section>
  );
}

function Options({ hasSteps, lead }: { hasSteps: boolean; lead: string | null }) {
  return (
    <>
      {hasSteps &&
        Object.entries(STEP_TITLES).map(([key, title]) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
      {RANK_GAUGES.map((gauge) => (
        <option key={gauge.key} value={gauge.key}>
          {gauge.title}
        </option>
      ))}
      {lead !== null && <option value="metric">{plain(lead)}</option>}
    </>
  );
}

function reading(heat: Heat | null, cell: Cell | null, show: (value: number) => string): string {
  const row = cell === null ? undefined : heat?.rows[cell.row];
  if (heat === null || cell === null || row === undefined) return "time since start runs to the right; point at a cell to read it, click a row to descend; arrow keys and Enter do the same";
  const value = heat.cells[cell.row]?.[cell.column] ?? null;
  const width = (heat.to - heat.from) / (heat.cells[0]?.length ?? 1);
  return `rank ${row.rank} · ${elapsed(heat.from + (cell.column + 0.5) * width, Math.min(1, width))} since start · ${value === null ? "no value" : show(value)}`;
}

/** The whole run's step times are asked for when this is opened, and again now and then while the run goes on. */
function useHeatAnswer(page: Page, hasSteps: boolean): void {
  const isLive = hasSteps && page.mode === "live" && !page.isOver.value;
  useEffect(() => {
    if (!hasSteps) return undefined;
    const ask = () => {
      if (!document.hidden) void page.requests.heat().catch(() => undefined);
    };
    ask();
    const timer = isLive ? setInterval(ask, REFRESH_MS) : undefined;
    return () => clearInterval(timer);
  }, [hasSteps, isLive]);
}

function valueFormat(choice: string): (value: number) => string {
  if (isStepTime(choice)) return (value) => format.fine(value);
  const unit = unitOf(choice);
  return unit === null ? (value) => format.metric(value) : unitFormat(unit);
}

/** Where a gauge's rows come from: the steps' own times, samples, or the ranks' own curves. */
function useRows(choice: string, ranks: RankEntry[], lead: string | null): HeatRow[] {
  const page = usePage();
  const resources = page.resources.value;
  const origin = page.run.value?.started_at ?? 0;
  const answer = page.heat.value;
  const curves = useMemo(
    () => (choice === "metric" && lead !== null ? spreadOf(ranks).ranks.map((rank) => ({ rank, curve: page.curves.get(lead, rank.path, "relative") })) : []),
    [choice, lead, ranks.map((rank) => rank.path).join("\n")],
  );
  useEffect(() => {
    const leave = curves.map(({ curve }) => page.curves.use(curve));
    return () => leave.forEach((stop) => stop());
  }, [curves]);
  const versions = curves.map(({ curve }) => curve.changed.value).join();
  return useMemo(() => {
    if (isStepTime(choice)) return stepRows(answer, page.history, choice, ranks, origin);
    if (choice !== "metric") return sampleRows(choice, page, ranks, origin);
    return curves.map(({ rank, curve }) => {
      const { entries } = curve.view(null, origin);
      return { rank: rank.rank, path: rank.path, isGone: isGone(rank), x: entries.x, values: entries.mean };
    });
  }, [choice, ranks.length, origin, choice === "metric" ? versions : isStepTime(choice) ? ranks : resources, answer]);
}

function sampleRows(key: string, page: Page, ranks: RankEntry[], origin: number): HeatRow[] {
  const gauge = RANK_GAUGES.find((one) => one.key === key);
  const rows = new Map<number, HeatRow>(ranks.map((rank) => [rank.rank, { rank: rank.rank, path: rank.path, isGone: isGone(rank), x: [], values: [] }]));
  for (const record of page.model.peek().resources) {
    const row = record.rank === null ? undefined : rows.get(record.rank);
    const value = gauge?.read(record) ?? null;
    if (row === undefined || value === null) continue;
    row.x.push(record.time - origin);
    row.values.push(value);
  }
  return [...rows.values()];
}

interface CanvasProps {
  heat: Heat;
  pointed: Signal<Cell | null>;
  show(value: number): string;
  onPick(row: HeatRow): void;
}

function HeatCanvas({ heat, pointed, show, onPick }: CanvasProps) {
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
    if (canvas.current !== null && width > 0) paintHeat(canvas.current, heat, layout, pointed.value, show);
  }, [heat, width, pointed.value, page.theme.value, page.scheme.value]);
  const pick = (cell: Cell | null) => {
    const row = cell === null ? undefined : heat.rows[cell.row];
    if (row !== undefined) onPick(row);
  };
  return (
    <div ref={box} class="heat-box" style={{ height: `${layout.height}px` }}>
      <canvas
        ref={canvas}
        role="img"
        tabIndex={0}
        aria-label={`Heat map of ${heat.rows.length} ranks over time${heat.odd === null ? "" : `; rank ${heat.odd.rank} differs most`}. Arrow keys move from cell to cell, Enter descends.`}
        style={{ width: `${width}px`, height: `${layout.height}px` }}
        onMouseMove={(event) => (pointed.value = cellAt(heat, layout, event.offsetX, event.offsetY))}
        onMouseLeave={() => (pointed.value = null)}
        onBlur={() => (pointed.value = null)}
        onClick={(event) => pick(cellAt(heat, layout, event.offsetX, event.offsetY))}
        onKeyDown={(event) => {
          const next = cellBy(event.key, pointed.value, heat);
          if (next !== null) {
            event.preventDefault();
            pointed.value = next;
          } else if (event.key === "Enter") pick(pointed.value);
          else if (event.key === "Escape") pointed.value = null;
        }}
      />
    </div>
  );
}
