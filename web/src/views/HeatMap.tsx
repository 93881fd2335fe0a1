import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Cell, HeatLayout } from "../charts/heatmap";
import { heating, heatKit, type HeatKit } from "../charts/heating";
import { palette } from "../charts/palette";
import * as format from "../lib/format";
import { elapsed, elapsedTicks } from "../lib/ticks";
import { plain } from "../lib/text";
import { GAUGES, unitOf, valuesOf } from "../state/gauges";
import type { Heat, HeatRow } from "../state/heat";
import type { Page } from "../state/page";
import { spreadOf } from "../state/spread";
import { isGone, ordered, ownStep } from "../state/standings";
import { isStepTime, stepRows } from "../state/steptimes";
import type { RankEntry } from "../wire/types.gen";
import { usePage } from "./context";
import { unitFormat } from "./GaugeCharts";
import { takenAlong } from "../state/ending";
import { leadMetric } from "../state/groups";

const COLUMNS = 480;
/** Few ranks are told apart better with less of the noise. */
const FEW = 16;
const FEW_COLUMNS = 160;
const REFRESH_MS = 20_000;
/** A map of very many cells is made anew as often as that many can be, and none more often than this. */
const PACE_MS = 1000;
const CELLS_PER_MS = 150;
const WAIT_MS = 250;
const RANK_GAUGES = GAUGES.filter((gauge) => gauge.of === "rank");
const STEP_TITLES = { "own step": "own step time", "data wait": "data wait", "whole step": "step time with waiting" };

/** A row a rank, time to the right: the row that is different is seen at once. */
export function HeatMap() {
  const page = usePage();
  const lead = leadMetric(page.metricNames.value);
  const hasSteps = page.heat.value !== null || page.ranks.value.some((rank) => ownStep(rank) !== null);
  const chosen = useSignal<string | null>(null);
  const choice = chosen.value ?? (hasSteps ? "own step" : "gpu");
  useEffect(() => void page.requests.resources().catch(() => undefined), []);
  useHeatAnswer(page, hasSteps);
  const kit = useHeatKit();
  const heat = useHeat(kit, choice, lead);
  const show = valueFormat(choice);
  const pointed = useSignal<Cell | null>(null);
  const total = page.ranks.value.length;
  return (
    <section class="panel heat" aria-label="Heat map">
      <header class="panel-head">
        <h2>Heat map</h2>
        <label class="field">
          <select value={choice} aria-label="Gauge" onChange={(event) => (chosen.value = event.currentTarget.value)}>
            <Options hasSteps={hasSteps} lead={lead} choice={choice} />
          </select>
        </label>
        <span class="panel-note">
          {heat?.odd != null && (
            <>
              ▸ rank {heat.odd.rank} differs most: {show(heat.odd.mean)}, {total === 2 ? "the other" : "usual"} {show(heat.odd.usual)}
            </>
          )}
          {heat !== null && heat.rows.length < total && ` ${heat.rows.length} of ${format.count(total)} ranks`}
        </span>
        {heat !== null && <Scale heat={heat} show={show} />}
      </header>
      {kit === null || heat === null ? (
        <p class="heat-none">{kit === null ? "\u00a0" : isStepTime(choice) ? "No step has been timed yet." : "No rank has reported this."}</p>
      ) : (
        <HeatCanvas kit={kit} heat={heat} pointed={pointed} show={show} onPick={(row) => page.show({ path: row.path, tab: "overview" }, true)} />
      )}
      <p class="heat-hint">time since start runs to the right; point at a cell to read it, click a row to descend; arrow keys and Enter do the same</p>
    </section>
  );
}

/** What the colours stand for; what lies beyond the ends has the colour of the end. */
function Scale({ heat, show }: { heat: Heat; show(value: number): string }) {
  return (
    <span class="heat-scale figure">
      {heat.isBelow && "≤ "}
      {show(heat.low)} <i aria-hidden="true" /> {heat.isAbove && "≥ "}
      {show(heat.high)}
      <span class="heat-nothing">
        <i aria-hidden="true" /> no value
      </span>
    </span>
  );
}

/** What draws the map, once it has come. */
function useHeatKit(): HeatKit | null {
  const [kit, setKit] = useState(heatKit);
  useEffect(() => void heating().then(() => setKit(heatKit), () => undefined), []);
  return kit;
}

/** The map of what is chosen, made anew at its own pace while the run goes on. */
function useHeat(kit: HeatKit | null, choice: string, lead: string | null): Heat | null {
  const page = usePage();
  const pace = useRef(WAIT_MS);
  const isLive = page.mode === "live" && !page.isOver.value;
  const beat = useBeat(pace, isLive);
  const curves = useRankCurves(choice === "metric" ? lead : null);
  const versions = curves.map(({ curve }) => curve.changed.value).join();
  const heat = useMemo(() => {
    if (kit === null) return null;
    const ranks = ordered(page.ranks.peek(), { column: "rank", descending: false });
    const origin = page.run.peek()?.started_at ?? 0;
    const rows = isStepTime(choice) ? stepRows(page.heat.peek(), page.history, choice, ranks, origin) : choice === "metric" ? curveRows(curves, origin) : sampleRows(choice, page, ranks, origin);
    // Who was only asked to end when another failed is no cause, and not what one looks for.
    const along = new Set(ranks.filter((rank) => takenAlong(rank, page.run.peek(), page.culprit.peek()) !== null).map((rank) => rank.rank));
    for (const row of rows) if (along.has(row.rank)) row.isGone = false;
    const made = kit.heatOf(rows, rows.length > FEW ? COLUMNS : FEW_COLUMNS, choice === "gpu");
    const blamed = choice === "whole step" || !isStepTime(choice) ? [] : ranks.filter((rank) => rank.verdict !== null);
    const known = blamed.length === 1 ? (blamed[0]?.rank ?? null) : null;
    return made === null || known === null ? made : kit.withOdd(made, known);
  }, [kit, choice, versions, page.heat.value, page.path.value, isLive ? beat : page.sampled.value]);
  pace.current = heat === null ? WAIT_MS : Math.max(PACE_MS, (heat.rows.length * (heat.cells[0]?.length ?? 1)) / CELLS_PER_MS);
  return heat;
}

/** Grows each time the pace's milliseconds have gone by while the page is seen. */
function useBeat(pace: { current: number }, isOn: boolean): number {
  const [beat, setBeat] = useState(0);
  useEffect(() => {
    if (!isOn) return undefined;
    let timer = setTimeout(function next() {
      if (!document.hidden) setBeat((count) => count + 1);
      timer = setTimeout(next, pace.current);
    }, pace.current);
    return () => clearTimeout(timer);
  }, [isOn]);
  return beat;
}

function Options({ hasSteps, lead, choice }: { hasSteps: boolean; lead: string | null; choice: string }) {
  const page = usePage();
  void page.sampled.value;
  const tracks = [...page.samples.tracks.values()].filter((track) => track.rank !== null);
  const gauges = RANK_GAUGES.filter((gauge) => gauge.key === choice || tracks.some((track) => valuesOf(track, gauge) !== null));
  return (
    <>
      {hasSteps &&
        Object.entries(STEP_TITLES).map(([key, title]) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
      {gauges.map((gauge) => (
        <option key={gauge.key} value={gauge.key}>
          {gauge.title}
        </option>
      ))}
      {lead !== null && <option value="metric">{plain(lead)}</option>}
    </>
  );
}

function reading(kit: HeatKit, heat: Heat, cell: Cell | null, show: (value: number) => string): string {
  const row = cell === null ? undefined : heat.rows[cell.row];
  if (cell === null || row === undefined) return "";
  const value = heat.cells[cell.row]?.[cell.column] ?? NaN;
  const width = (heat.to - heat.from) / (heat.cells[0]?.length ?? 1);
  const host = kit.hostBands(heat.rows).length > 0 && row.host != null ? ` on ${row.host}` : "";
  const state = row.isGone === true ? "gone, " : "";
  return `rank ${row.rank}${host} · ${elapsed(heat.from + (cell.column + 0.5) * width, Math.min(1, width))} since start · ${Number.isNaN(value) ? `${state}no value` : show(value)}`;
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

/** The chosen metric's curve of each rank, in use while it is shown. */
function useRankCurves(metric: string | null) {
  const page = usePage();
  const ranks = metric === null ? [] : spreadOf(page.ranks.value).ranks;
  const curves = useMemo(
    () => (metric === null ? [] : ranks.map((rank) => ({ rank, curve: page.curves.get(metric, rank.path, "relative") }))),
    [metric, ranks.map((rank) => rank.path).join("\n")],
  );
  useEffect(() => {
    const leave = curves.map(({ curve }) => page.curves.use(curve));
    return () => leave.forEach((stop) => stop());
  }, [curves]);
  return curves;
}

function shownHost(rank: RankEntry): string | null {
  return rank.host === null ? null : plain(rank.host);
}

function curveRows(curves: ReturnType<typeof useRankCurves>, origin: number): HeatRow[] {
  return curves.map(({ rank, curve }) => {
    const { entries } = curve.view(null, origin);
    return { rank: rank.rank, path: rank.path, host: shownHost(rank), isGone: isGone(rank), x: entries.x, values: entries.mean };
  });
}

function sampleRows(key: string, page: Page, ranks: RankEntry[], origin: number): HeatRow[] {
  const gauge = RANK_GAUGES.find((one) => one.key === key);
  return ranks.map((rank) => {
    const track = page.samples.tracks.get(rank.path);
    const values = track === undefined || gauge === undefined ? null : valuesOf(track, gauge);
    return { rank: rank.rank, path: rank.path, host: shownHost(rank), isGone: isGone(rank), x: values === null ? [] : (track?.time.map((at) => at - origin) ?? []), values: values ?? [] };
  });
}

interface CanvasProps {
  kit: HeatKit;
  heat: Heat;
  pointed: Signal<Cell | null>;
  show(value: number): string;
  onPick(row: HeatRow): void;
}

function HeatCanvas({ kit, heat, pointed, show, onPick }: CanvasProps) {
  const page = usePage();
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const layout = kit.heatLayout(heat.rows.length, width, kit.hostBands(heat.rows).length > 0, innerHeight);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current !== null && width > 0) kit.paintHeat(canvas.current, heat, layout, { colors: palette(), xTicks: elapsedTicks, text: show });
  }, [heat, width, page.theme.value, page.scheme.value]);
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
        onMouseMove={(event) => (pointed.value = kit.cellAt(heat, layout, event.offsetX, event.offsetY))}
        onMouseLeave={() => (pointed.value = null)}
        onBlur={() => (pointed.value = null)}
        onClick={(event) => pick(kit.cellAt(heat, layout, event.offsetX, event.offsetY))}
        onKeyDown={(event) => {
          const next = kit.cellBy(event.key, pointed.value, heat);
          if (next !== null) {
            event.preventDefault();
            pointed.value = next;
          } else if (event.key === "Enter") pick(pointed.value);
          else if (event.key === "Escape") pointed.value = null;
        }}
      />
      <Pointed kit={kit} heat={heat} cell={pointed} layout={layout} room={width} show={show} />
    </div>
  );
}

const LEAST_PX = 4;

/** The row's edges, the cell's frame, and beside it what it says. */
function Pointed({ kit, heat, cell, layout, room, show }: { kit: HeatKit; heat: Heat; cell: Signal<Cell | null>; layout: HeatLayout; room: number; show(value: number): string }) {
  const at = cell.value === null ? null : kit.placeOf(cell.value, heat, layout);
  const high = Math.max(LEAST_PX, layout.rowHeight);
  const isLow = at !== null && at.y < 40;
  return (
    <>
      {at !== null && <i class="heat-row" style={{ left: `${layout.left}px`, top: `${at.y}px`, width: `${layout.width}px`, height: `${high}px` }} />}
      {at !== null && <i class="heat-cell" style={{ left: `${at.x}px`, top: `${at.y}px`, width: `${Math.max(LEAST_PX, at.width)}px`, height: `${high}px` }} />}
      <p
        class="heat-reading figure"
        role="status"
        style={at === null ? {} : { top: `${isLow ? at.y + high + 8 : at.y - 38}px`, ...(at.x > room / 2 ? { right: `${room - at.x}px` } : { left: `${at.x}px` }) }}
      >
        {reading(kit, heat, cell.value, show)}
      </p>
    </>
  );
}
