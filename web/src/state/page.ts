// Everything the views read: signals of the run, of what one sees, and of the page itself.

import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { recall, recallSet, remember, rememberSet } from "../lib/remember";
import type { EventRecord, GaugesAnswer, GraphDocument, HeatAnswer, MetricEntry, RankEntry, ResourceRecord, RunDocument, XAxis } from "../wire/types.gen";
import { domainOf, type Range } from "./domain";
import { Curves, type SeriesSource, type Zoom } from "./curves";
import { culpritOf, type Culprit } from "./ending";
import type { Folds } from "./graph/fold";
import { offsetOf } from "./epochs";
import { RankHistory } from "./history";
import { EMPTY, isOver, reduce, type Change, type Model } from "./model";
import { pausedOf, placesOf, resumesOf, type Place, type Resume } from "./resumes";
import { Samples } from "./samples";
import { formatView, isWithin, parentOf, parseView, type View } from "./view";

export type Mode = "live" | "report";
/** Of the page's own link to the controller, never of the run. */
export type Connection = "connecting" | "live" | "disconnected" | "over" | "other run" | "report";
export type Theme = "system" | "dark" | "light";

/** What the page can ask for beyond the stream; resolved when it is there. What cannot be had leaves what is known. */
export interface Requests {
  /** What was sampled before this page was there, into `samples`; asked once. */
  resources(): Promise<void>;
  /** What every rank's steps took, into `heat`. */
  heat(): Promise<void>;
  /** The model's graph, into `graph`. */
  graph(): Promise<void>;
  /** The user's drawing of the model, into `svg`. */
  svg(): Promise<void>;
}

/** An answer that is shared among viewers for a moment may still be of before. */
const SHARED_MS = 500;

export class Page {
  readonly model: Signal<Model> = signal(EMPTY);
  readonly view: Signal<View>;
  readonly connection: Signal<Connection>;
  /** When the controller was last heard, ms of `performance.now()`. */
  readonly heardAt: Signal<number> = signal(0);
  /** When the last sample of hardware came, ms of `performance.now()`. */
  readonly sampledAt: Signal<number> = signal(performance.now());
  /** `performance.now()`, ticking while the page is visible. */
  readonly now: Signal<number> = signal(performance.now());
  readonly problem: Signal<string | null> = signal(null);
  readonly theme: Signal<Theme>;
  /** Grows when the system's own scheme changes, and when the page goes to paper or comes back. */
  readonly scheme: Signal<number> = signal(0);
  readonly pins: Signal<ReadonlySet<string>> = signal(recallSet("pins"));
  readonly folded: Signal<ReadonlySet<string>> = signal(recallSet("folded"));
  readonly dismissed: Signal<number> = signal(-1);
  readonly heat: Signal<HeatAnswer | null> = signal(null);
  readonly graph: Signal<GraphDocument | null> = signal(null);
  readonly svg: Signal<string | null> = signal(null);
  /** What is unfolded of the model, and of which one. */
  readonly folds: Signal<Folds & { structure: string | null }> = signal({ structure: null, open: new Set(), pages: new Map() });
  readonly curves: Curves;
  readonly history = new RankHistory();
  /** The course of what `resources` has the newest of; it changes in place, and `sampled` grows then. */
  readonly samples = new Samples();
  readonly sampled: Signal<number> = signal(0);

  readonly run: ReadonlySignal<RunDocument | null> = computed(() => this.model.value.run);
  readonly isOver: ReadonlySignal<boolean> = computed(() => isOver(this.run.value));
  readonly path: ReadonlySignal<string> = computed(() => this.view.value.path);
  // Parts of the model: whoever reads one is told when it has changed, and of nothing else.
  /** Every rank. */
  readonly everyone: ReadonlySignal<RankEntry[]> = computed(() => this.model.value.ranks);
  readonly metrics: ReadonlySignal<MetricEntry[]> = computed(() => this.model.value.metrics);
  readonly resources: ReadonlySignal<ResourceRecord[]> = computed(() => this.model.value.resources);
  /** Ranks at or below the path. */
  readonly ranks: ReadonlySignal<RankEntry[]> = computed(() => {
    const path = this.path.value;
    return this.everyone.value.filter((rank) => isWithin(rank.path, path));
  });
  readonly events: ReadonlySignal<EventRecord[]> = computed(() => this.model.value.events);
  /** Whose end was the job's, once it has failed. */
  readonly culprit: ReadonlySignal<Culprit | null> = computed(() => culpritOf(this.run.value, this.everyone.value, this.events.value));
  /** What the x axis shows when nobody zoomed. */
  readonly range: ReadonlySignal<Range> = stable(() => [...domainOf(this.model.value, this.view.value.x)] as const);
  /** Where the run was gone on with; the same list until it changes. */
  private readonly told = computed(() => JSON.stringify(this.run.value?.environment["resumed"] ?? []));
  readonly resumes: ReadonlySignal<Resume[]> = computed(() => resumesOf(JSON.parse(this.told.value)));
  /** What is added to an epoch's number, so that the first one is 1. */
  readonly epochOffset: ReadonlySignal<number> = computed(() => offsetOf(this.model.value.epochs, this.everyone.value, this.run.value?.epochs ?? null));
  private readonly metricsByName = computed(() => new Map(this.metrics.value.map((metric) => [metric.name, metric])));
  readonly metricNames: ReadonlySignal<string[]> = stable(() => this.metrics.value.map((metric) => metric.name));

  constructor(
    readonly mode: Mode,
    source: SeriesSource,
    readonly requests: Requests,
    /** When the report was written, UTC seconds. */
    readonly writtenAt: number | null = null,
  ) {
    this.curves = new Curves(source);
    this.view = signal(parseView(location.hash));
    this.connection = signal(mode === "report" ? "report" : "connecting");
    const theme = recall("theme");
    this.theme = signal(theme === "dark" || theme === "light" ? theme : "system");
  }

  /** One metric as it is now, or null. */
  metric(name: string): MetricEntry | null {
    return this.metricsByName.value.get(name) ?? null;
  }

  /** Where the run was gone on with, on an axis. */
  resumed(axis: XAxis): Place[] {
    return placesOf(this.resumes.value, axis, this.run.value?.started_at ?? 0, (epoch) => epoch + this.epochOffset.value);
  }

  change(changes: Change[]): void {
    const { run: before } = this.model.peek();
    const told = this.told.peek();
    batch(() => {
      this.model.value = changes.reduce(reduce, this.model.value);
      for (const change of changes) {
        if (change.kind !== "resources") continue;
        this.samples.take(change.records);
        this.sampled.value += 1;
        this.sampledAt.value = performance.now();
      }
    });
    if (before !== null && told !== this.told.peek()) {
      this.curves.forget();
      setTimeout(() => this.curves.forget(), SHARED_MS);
    }
    const { run, ranks, runAt, ranksAt } = this.model.peek();
    if (run !== null && changes.some((change) => change.kind === "ranks") && !isOver(run)) {
      this.history.take(ranks, run.elapsed_seconds + pausedOf(run) + (ranksAt - runAt) / 1000, ranksAt);
    }
  }

  /** Samples from before. */
  loadSamples(gauges: GaugesAnswer): void {
    this.samples.load(gauges);
    this.change([{ kind: "resources", records: gauges.latest }]);
  }

  /** Shows something else; `push` makes it a step that Back undoes. */
  show(patch: Partial<View>, push = false): void {
    const next = { ...this.view.value, ...patch };
    const url = formatView(next);
    if (url === formatView(this.view.value)) return;
    if (push) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
    this.view.value = next;
  }

  descend(path: string): void {
    this.show({ path, zoom: this.view.value.zoom, at: null }, true);
  }

  ascend(): void {
    const parent = parentOf(this.path.value);
    if (parent !== null) this.show({ path: parent }, true);
  }

  zoomTo(zoom: Zoom): void {
    this.show({ zoom }, true);
  }

  /** Shows one chart over all others; none when the name is empty. */
  enlarge(chart: string): void {
    this.show({ chart }, true);
  }

  setTheme(theme: Theme): void {
    this.theme.value = theme;
    remember("theme", theme === "system" ? null : theme);
  }

  togglePin(name: string): void {
    this.pins.value = toggled(this.pins.value, name);
    rememberSet("pins", this.pins.value);
  }

  toggleFold(group: string): void {
    this.folded.value = toggled(this.folded.value, group);
    rememberSet("folded", this.folded.value);
  }

  toggleLog(name: string): void {
    this.show({ log: toggled(this.view.value.log, name) });
  }

  toggleSpread(name: string): void {
    this.show({ ranks: toggled(this.view.value.ranks, name) });
  }
}

export function toggled(set: ReadonlySet<string>, item: string): ReadonlySet<string> {
  const next = new Set(set);
  if (!next.delete(item)) next.add(item);
  return next;
}

/** A computed list that keeps its identity while its elements stay the same. */
function stable<T extends readonly (string | number)[]>(compute: () => T): ReadonlySignal<T> {
  let last: T | null = null;
  return computed(() => {
    const next = compute();
    if (last !== null && next.length === last.length && next.every((item, i) => item === last?.[i])) return last;
    last = next;
    return next;
  });
}
