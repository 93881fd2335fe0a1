import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import * as format from "../lib/format";
import { takenAlong } from "../state/ending";
import { loadOf, sum } from "../state/load";
import { pausedOf } from "../state/resumes";
import { formatView } from "../state/view";
import type { MetricEntry, RankCounts, RankEntry } from "../wire/types.gen";
import { elapsedSeconds, etaSeconds, isSampled, standingSeconds } from "./clocks";
import { usePage } from "./context";
import { Meter } from "./Meter";
import { Learning } from "./Learning";

/** Alive? Learning? How long still? Is the hardware used? The figures one looks for first. */
export function Vitals() {
  const page = usePage();
  const isOld = page.connection.value === "disconnected";
  return (
    <section class={`vitals ${isOld ? "is-old" : page.isOver.value ? "is-over" : ""}`} aria-label="Vital signs">
      <Alive />
      <Learning />
      <Progress />
      <TimeLeft />
      <Throughput />
      <Hardware />
      <ProgressBar />
    </section>
  );
}

interface VitalProps {
  label: string;
  class?: string;
  children: ComponentChildren;
}

export function Vital({ label, class: name, children }: VitalProps) {
  return (
    <div class={`vital ${name ?? ""}`} role="group" aria-label={label}>
      <span class="vital-label">{label}</span>
      {children}
    </div>
  );
}

function Alive() {
  const page = usePage();
  const run = page.run.value;
  const counts = run?.ranks;
  const alive = counts === undefined ? null : counts.alive + counts.late;
  const isOver = page.isOver.value;
  const shown = isOver ? (counts?.finished ?? null) : alive;
  const world = run?.world_size ?? null;
  const hosts = run?.hosts.length ?? 0;
  const finished = isOver ? 0 : (counts?.finished ?? 0);
  const isShort = shown !== null && world !== null && shown + finished < world && run?.state !== "waiting";
  return (
    <Vital label={isOver ? "Ranks finished" : page.connection.value === "disconnected" ? "Alive when last heard" : "Ranks alive"}>
      <span class={`vital-figure ${isShort ? "is-short" : ""}`}>
        {format.count(shown)}
        <small> / {format.count(world)}</small>
      </span>
      <span class="vital-note">
        <RankDots ranks={page.everyone.value} />
        <NotAlive counts={counts} />
        {finished > 0 && <span>{format.count(finished)} finished</span>}
        {hosts > 0 && <span>{hosts === 1 ? "1 host" : `${hosts} hosts`}</span>}
        {(run?.generation ?? 0) > 0 && <span>generation {run?.generation}</span>}
      </span>
    </Vital>
  );
}

/** How many are not alive, and how. */
function NotAlive({ counts }: { counts: RankCounts | undefined }) {
  const page = usePage();
  if (counts === undefined) return null;
  const along = page.everyone.value.filter((rank) => takenAlong(rank, page.run.value, page.culprit.value) !== null).length;
  const bad = { failed: counts.failed - along, "asked to end": along, lost: counts.lost, late: counts.late };
  const words = Object.entries(bad).flatMap(([state, count]) => (count > 0 ? `${format.count(count)} ${state}` : []));
  if (words.length === 0) return null;
  return (
    <a
      class="vital-bad"
      href={formatView({ ...page.view.value, tab: "ranks" })}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        page.show({ tab: "ranks" }, true);
      }}
    >
      {words.join(", ")}
    </a>
  );
}

const DOTS = 16;

/** One mark a rank while there are few; what is wrong is taller, not only redder. */
function RankDots({ ranks }: { ranks: RankEntry[] }) {
  const { run, culprit } = usePage();
  if (ranks.length < 2 || ranks.length > DOTS) return null;
  return (
    <span class="rank-dots" aria-hidden="true">
      {ranks.map((rank) => (
        <i key={rank.rank} class={takenAlong(rank, run.value, culprit.value) === null ? `is-${rank.state}` : "is-along"} title={`rank ${rank.rank}: ${rank.state}`} />
      ))}
    </span>
  );
}

function Progress() {
  const page = usePage();
  const run = page.run.value;
  const hasEpoch = run?.epoch != null;
  const step = run?.step ?? latestStep(page.metrics.value);
  return (
    <Vital label="Progress">
      <span class="vital-figure">
        {hasEpoch ? (
          <>
            <small>epoch </small>
            {format.count((run.epoch ?? 0) + page.epochOffset.value)}
            {run.epochs !== null && <small> / {format.count(run.epochs)}</small>}
          </>
        ) : (
          <>
            <small>step </small>
            {format.count(step)}
          </>
        )}
      </span>
      <span class="vital-note">
        {hasEpoch && step !== null && `step ${format.count(step)}`}
        {step !== null && run?.steps != null && ` of ${format.count(run.steps)}`}
        {step === null ? "no step yet" : run?.steps == null && run?.epochs == null && "total not set"}
        <Standing />
      </span>
    </Vital>
  );
}

const STANDS_S = 15;

/** Ranks may be alive and nothing go on: how long no step has come. */
function Standing() {
  const page = usePage();
  const standing = standingSeconds(page);
  return standing === null || standing < STANDS_S ? null : <span class="is-standing">no step for {format.duration(standing)}</span>;
}

/** The farthest step that any metric has, for a run whose ranks are all gone. */
function latestStep(metrics: MetricEntry[]): number | null {
  return metrics.reduce<number | null>((most, metric) => (metric.last_step === null ? most : Math.max(most ?? 0, metric.last_step)), null);
}

function TimeLeft() {
  const page = usePage();
  const eta = etaSeconds(page);
  const elapsed = elapsedSeconds(page);
  const pause = pausedOf(page.run.value);
  const paused = pause >= 1 && <span>+ {format.duration(pause)} paused</span>;
  if (page.isOver.value) {
    return (
      <Vital label="Took">
        <span class="vital-figure">{format.duration(elapsed)}</span>
        <span class="vital-note">
          <span>ended {format.moment(page.run.value?.ended_at)}</span>
          {paused}
        </span>
      </Vital>
    );
  }
  return (
    <Vital label="Time left" class="vital-eta">
      <span class={`vital-figure ${eta === null ? "is-unknown" : ""}`}>{eta === null ? "unknown" : format.clock(eta)}</span>
      <span class="vital-note">
        {page.run.value?.state === "waiting" ? "waiting" : "ran"} {elapsed !== null && elapsed >= 3600 ? format.duration(elapsed) : format.clock(elapsed)}
        {paused}
        {eta !== null && page.connection.value !== "disconnected" && ` · ends ${format.when(Date.now() / 1000 + eta, false)}`}
      </span>
    </Vital>
  );
}

function Throughput() {
  const page = usePage();
  const run = page.run.value;
  const isWhole = page.path.value === "root";
  const figure = format.compact(isWhole ? run?.throughput : sum(page.ranks.value.map((rank) => rank.throughput)));
  return (
    <Vital label="Throughput">
      <span class={`vital-figure ${figure === format.UNKNOWN ? "is-unknown" : ""}`}>{figure}</span>
      <span class="vital-note">{isWhole ? "samples/s" : "samples/s, own time"}</span>
    </Vital>
  );
}

function Hardware() {
  const page = usePage();
  const load = loadOf(page.ranks.value, page.resources.value, page.path.value);
  const hasGpu = load.gpu !== null || load.vramUsed !== null;
  const isNow = useComputed(() => isSampled(page)).value;
  const since = load.since ?? (isNow ? null : (page.resources.value.at(-1)?.time ?? null));
  const isOld = since !== null && !page.isOver.value;
  return (
    <Vital label={hasGpu ? "GPU" : "CPU"} class="vital-hardware">
      <Meter label={hasGpu ? "GPU" : "CPU"} ratio={hasGpu ? load.gpu : load.cpu} text={format.percent(hasGpu ? load.gpu : load.cpu)} isOld={isOld} />
      <Meter
        label={hasGpu ? "VRAM" : "RAM"}
        ratio={hasGpu ? ratio(load.vramUsed, load.vramTotal) : ratio(load.memoryUsed, load.memoryTotal)}
        isLimit
        isOld={isOld}
        text={hasGpu ? format.bytesOf(load.vramUsed, load.vramTotal) : format.bytesOf(load.memoryUsed, load.memoryTotal)}
      />
      {since !== null && <span class={`vital-note ${isOld ? "is-standing" : ""}`}>last sample {format.when(since)}</span>}
    </Vital>
  );
}

export function ratio(part: number | null | undefined, whole: number | null | undefined): number | null {
  return part === null || part === undefined || !whole ? null : part / whole;
}

const TICKS = 60;

/** How much of the run is done, with the epochs as ticks. */
function ProgressBar() {
  const run = usePage().run.value;
  const done = progressOf(run);
  const epochs = run?.epochs ?? 0;
  return (
    <div
      class="progress"
      role="progressbar"
      aria-label="Run"
      aria-valuemin={0}
      aria-valuemax={100}
      {...(done === null ? {} : { "aria-valuenow": Math.round(done * 100) })}
    >
      <i class={`progress-done is-${run?.state ?? "waiting"}`} style={{ width: `${(done ?? 0) * 100}%` }} />
      {epochs > 1 &&
        epochs <= TICKS &&
        Array.from({ length: epochs - 1 }, (_, i) => <b key={i} style={{ left: `${((i + 1) / epochs) * 100}%` }} />)}
    </div>
  );
}

/** 0 to 1, or null while the end is unknown. */
export function progressOf(run: { state: string; step: number | null; steps: number | null; epoch: number | null; epochs: number | null } | null): number | null {
  if (run === null) return null;
  if (run.state === "finished") return 1;
  if (run.steps && run.step !== null) return Math.min(1, run.step / run.steps);
  if (run.epochs && run.epoch !== null) return Math.min(1, run.epoch / run.epochs);
  return null;
}
