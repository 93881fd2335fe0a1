import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { compose, type RankCurve } from "../charts/compose";
import type { Crosshair } from "../charts/crosshair";
import type { Picture } from "../charts/aligned";
import { chartFile } from "../charts/chartfile";
import { useInView, usePrinting } from "../charts/inview";
import { xLabel } from "../charts/axes";
import { PlotView } from "../charts/PlotView";
import * as format from "../lib/format";
import { numberTicks } from "../lib/ticks";
import { safe, save } from "../lib/save";
import { curveLabel, leafOf, plain, sentence } from "../lib/text";
import { badAt, type Entries } from "../state/columns";
import type { Curve } from "../state/curves";
import { curvesCsv } from "../charts/compose";
import type { Place } from "../state/resumes";
import { spreadOf, tellersOf, type Spread } from "../state/spread";
import type { MetricEntry, XAxis } from "../wire/types.gen";
import { ChartTools, type Kind } from "./ChartTools";
import { usePage } from "./context";
import { Icon } from "./Icon";
import { lastValue, leadOf, Legend, valueNear } from "./Legend";
import { Name } from "./Name";

interface Props {
  name: string;
  crosshair: Crosshair;
}

/** One metric: its name, its value, its curve. Drawn only while in view. `isNear`: it may be. */
export function ChartCard({ name, crosshair, isNear }: Props & { isNear: boolean }) {
  const ref = useRef<HTMLElement>(null);
  const isInView = useInView(ref, isNear);
  const isDrawn = usePrinting() || isInView;
  return (
    <article ref={ref} class="chart" aria-label={plain(name)}>
      {isDrawn ? (
        <Drawn name={name} crosshair={crosshair} />
      ) : (
        <h3 class="chart-name">
          <Name text={leafOf(name)} title={name} />
        </h3>
      )}
    </article>
  );
}

function Drawn({ name, crosshair }: Props) {
  const page = usePage();
  const metric = page.metric(name);
  return metric === null ? null : <Chart metric={metric} crosshair={crosshair} />;
}

interface ChartProps {
  metric: MetricEntry;
  crosshair: Crosshair;
  /** Given where it is enlarged. */
  onClose?(): void;
}

/** A chart with its name, its figures and its tools. */
export function Chart({ metric, crosshair, onClose }: ChartProps) {
  const page = usePage();
  const { path, x, zoom, smooth, band, at } = page.view.value;
  const solo = useSignal<string | null>(null);
  const index = useSignal<number | null>(null);
  const isSaid = useSignal(false);
  const isLog = page.view.value.log.has(metric.name);
  const curve = page.curves.get(metric.name, path, x);
  const spread = page.view.value.ranks.has(metric.name) ? spreadOf(page.ranks.value) : null;
  const rankCurves = useRankCurves(metric.name, curve, spread);
  const origin = page.run.value?.started_at ?? 0;
  const { entries, marks } = curve.view(zoom, origin);
  const theme = `${page.theme.value} ${page.scheme.value}`;

  const picture = useMemo(() => {
    const ranks: RankCurve[] = rankCurves.map(({ rank, label, curve: own }) => ({ rank, label, entries: own.view(zoom, origin).entries }));
    return compose(entries, marks, ranks, { log: isLog, band, smooth, solo: solo.value, label: curveLabel(metric.name, curve.base?.reduction ?? metric.reduction) });
  }, [entries, marks, band, smooth, isLog, solo.value, theme, ...rankCurves.map(({ curve: own }) => own.changed.value)]);

  const [from, to] = zoom ?? page.range.value;
  const xShift = x === "epoch" ? page.epochOffset.value : 0;
  const resumed = useMemo(() => page.resumed(x), [x, xShift, origin, page.resumes.value]);
  const frame = useMemo(
    () => ({ xKind: x, range: [from, to] as const, at, yTicks: numberTicks, yRange: null, xShift, resumed }),
    [x, from, to, at, xShift, resumed],
  );
  const saved = (kind: Kind) => {
    const name = `${safe(page.run.peek()?.name ?? "run")}-${safe(metric.name)}.${kind}`;
    if (kind !== "csv") return void chartFile(kind, titleOf(metric), picture, frame).then((file) => save(name, file.type, file), (error: unknown) => (page.problem.value = `The picture could not be made: ${String(error)}`));
    const curves = [{ label: "", entries }, ...rankCurves.map(({ label, curve: own }) => ({ label, entries: own.view(zoom, origin).entries }))];
    return save(name, "text/csv;charset=utf-8", curvesCsv(curves, x, curve.base?.reduction ?? metric.reduction));
  };
  const tellers = tellersOf(metric, page.ranks.value, path);
  const base = curve.base;
  const isCut = tellers.count === 1 && (page.mode === "report" || page.curves.frozen) && base !== null && base.totalPoints > base.x.length;
  return (
    <>
      <div class="chart-head">
        <h3 class="chart-name">
          <Name text={leafOf(metric.name)} title={metric.name} />
          {metric.unit !== null && <span class="chart-unit">{plain(metric.unit)}</span>}
        </h3>
        <ChartTools metric={metric.name} canSpread={page.ranks.value.length > 1} {...(onClose === undefined ? {} : { onSave: saved })} />
        <Reading picture={picture} entries={entries} index={index.value} x={x} shift={xShift} width={to - from} isSaid={isSaid.value} />
        {onClose !== undefined && (
          <button type="button" class="icon-button is-small" aria-label="Back to all charts" title="Back to all charts (Esc)" onClick={onClose}>
            <Icon name="close" />
          </button>
        )}
      </div>
      <Legend
        picture={picture}
        index={index.value}
        solo={solo}
        entries={entries}
        tellers={tellers}
        kept={isCut ? [base.x.length, base.totalPoints] : null}
        lead={leadOf(picture)}
        spread={spread}
        marks={marks.length}
        unplaced={isLog ? entries.mean.filter((value) => value !== null && value <= 0).length : 0}
      />
      {isEmpty(picture) ? (
        <p class="plot plot-empty">{nothing(curve, entries, marks.length > 0)}</p>
      ) : (
        <PlotView
          picture={picture}
          frame={frame}
          crosshair={crosshair}
          label={spoken(metric, picture, entries, resumed)}
          onPoint={(point) => (index.value = point)}
          onZoom={(low, high) => page.zoomTo([low, high])}
          onReset={() => page.zoomTo(null)}
          onKeys={(isMoved) => (isSaid.value = isMoved)}
          {...(onClose !== undefined ? { isFirst: true } : { onEnter: () => page.enlarge(metric.name) })}
        />
      )}
    </>
  );
}

interface OwnCurve {
  rank: number;
  label: string;
  curve: Curve;
}

/** The curves of the ranks laid over a chart, in use while it shows them; the cohort's own is in use as well. */
function useRankCurves(metric: string, cohort: Curve, spread: Spread | null): OwnCurve[] {
  const page = usePage();
  const { path, x } = page.view.value;
  const ranks = spread?.ranks ?? [];
  const key = ranks.map((rank) => rank.path).join("\n");
  const own = useMemo(
    () => ranks.map((rank) => ({ rank: rank.rank, label: `rank ${rank.rank}`, curve: page.curves.get(metric, rank.path, x) })),
    [key, metric, x, path],
  );
  useEffect(() => page.curves.use(cohort), [cohort]);
  useEffect(() => {
    const leave = own.map(({ curve }) => page.curves.use(curve));
    return () => leave.forEach((stop) => stop());
  }, [own]);
  return own;
}

function lastOf(values: (number | null)[]): number | null {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i] ?? null;
  return null;
}

function isEmpty(picture: Picture): boolean {
  const isBlank = picture.lines.every((line) => line.values.every((value) => typeof value !== "number"));
  return isBlank && picture.marks.length === 0 && picture.band === null;
}

interface ReadingProps {
  picture: Picture;
  /** Of the cohort. */
  entries: Entries;
  index: number | null;
  x: XAxis;
  /** What x says more than its value. */
  shift: number;
  width: number;
  isSaid: boolean;
}

/** The leading line's value at the crosshair with its x, else the latest. */
function Reading({ picture, entries, index, x, shift, width, isSaid }: ReadingProps) {
  const at = index === null ? undefined : picture.x[index];
  const line = leadOf(picture);
  const drawn = line === undefined ? null : index === null ? lastValue(line) : valueNear(line.values, index);
  // What is not finite is a gap in what is drawn, and is said all the same.
  const value = drawn ?? (line?.key === "raw" || line?.key === "mean" ? badAt(entries, at) : null);
  return (
    <output class="reading" aria-live={isSaid ? "polite" : "off"}>
      {at !== undefined && <span class="reading-x">{xLabel(x, at + shift, width)}</span>}
      <span class="reading-value" title={line?.key === "raw" ? "As logged, not smoothed" : undefined}>{format.metric(value)}</span>
    </output>
  );
}

function titleOf({ name, unit }: MetricEntry): string {
  return unit === null ? plain(name) : `${plain(name)} (${plain(unit)})`;
}

function spoken(metric: MetricEntry, picture: Picture, { mean, min, max }: Entries, resumed: readonly Place[]): string {
  const last = format.metric(lastOf(mean));
  const known = [...min, ...max].filter((value): value is number => value !== null && Number.isFinite(value));
  const span = known.length > 1 ? `, between ${format.metric(known.reduce((a, b) => Math.min(a, b)))} and ${format.metric(known.reduce((a, b) => Math.max(a, b)))}` : "";
  const marks = picture.marks.length > 0 ? `, ${picture.marks.length} not finite` : "";
  return `${plain(metric.name)}: ${picture.x.length} points, latest ${last}${span}${marks}${resumed.map(({ label }) => `, ${label}`).join("")}. Arrow keys move the crosshair, Enter enlarges.`;
}

/** Why a chart has nothing to draw. */
function nothing(curve: Curve, entries: Entries, hasMarks: boolean): string {
  switch (curve.state) {
    case "empty":
      return "\u00a0";
    case "absent":
      return "No value at this path.";
    case "unkept":
      return "Of so wide a run only the curves of the whole job are kept here. Its run folder has every rank's: open it with trackside view.";
    case "unreachable":
      return `${sentence(curve.refusal ?? "The controller does not answer")} This is asked for again by itself.`;
    case "ready":
      if (hasMarks) return "Only values that are not finite.";
      return entries.mean.some((value) => value !== null) ? "Nothing above 0: a log scale has no place for it." : "No value in this range. Double-click a chart to see all.";
  }
}
