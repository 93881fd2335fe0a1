// The live page's composition: the link's events become changes of the model, at most ten times a second.

import { arranging } from "../charts/arranging";
import { writing } from "../charts/chartfile";
import { heating } from "../charts/heating";
import { getDocument, getText, HttpError } from "../net/api";
import { bakedSource } from "../state/baked";
import { Link } from "../net/link";
import type { Change } from "../state/model";
import { leadMetric } from "../state/groups";
import { NoSuchSeries, RefusedSeries, type SeriesSource } from "../state/curves";
import { Page } from "../state/page";
import { spreadOf } from "../state/spread";
import { isOver } from "../state/model";
import { asHeat } from "../wire/diagnosis";
import { asGraph } from "../wire/graph";
import {
  asBaked,
  asEpoch,
  asEpochs,
  asEvent,
  asEvents,
  asGauges,
  asHello,
  asMetrics,
  asPoints,
  asRanks,
  asResources,
  asRun,
  asSeries,
} from "../wire/guards";
import type { ResourceRecord } from "../wire/types.gen";

const FLUSH_MS = 100;
const GREETING_MS = 400;
const SAMPLES_MS = 1000;
/** Of very many ranks the samples come all the time, and none is looked at alone. */
const MANY_SAMPLES_MS = 2000;
const METRICS_MS = 15_000;
const EAGER_RESOURCES_RANKS = 64;
/** A page that opens on a run that is over draws first, and keeps everything then. */
const SETTLED_MS = 4000;

export function livePage(base: string): Page {
  const kept: Kept = { source: null, samples: null, isAlone: false };
  const page: Page = new Page("live", seriesOf(base, kept), {
    resources: () => loadSamples(base, page, kept),
    heat: async () => void (page.heat.value = await getDocument(base, "api/v1/heat", asHeat)),
    graph: async () => void (page.graph.value = (await getDocument(base, "api/v1/graph", asGraph)) ?? page.graph.peek()),
    svg: async () => void (page.svg.value = await getText(base, "graph.svg")),
  });
  new Feed(base, page, kept).start();
  return page;
}

/** What the report holds, once the run is over: it answers when the controller has gone. */
interface Kept {
  source: SeriesSource | null;
  /** The samples from before, asked for or there; again after what the stream could not bring. */
  samples: Promise<void> | null;
  isAlone: boolean;
}

function seriesOf(base: string, kept: Kept): SeriesSource {
  return {
    async series(asked) {
      if (kept.source !== null && kept.isAlone) return kept.source.series(asked);
      const { metric, path, x, from, to, points } = asked;
      const query: Record<string, string> = { metric, path, x, points: String(points) };
      if (from !== null) query["from"] = String(from);
      if (to !== null) query["to"] = String(to);
      try {
        return await getDocument(base, "api/v1/series", asSeries, query);
      } catch (error) {
        if (error instanceof HttpError && error.status === 404) throw new NoSuchSeries(metric);
        if (error instanceof HttpError) throw new RefusedSeries(error.message);
        if (kept.source !== null) return kept.source.series(asked);
        throw error;
      }
    },
  };
}

function loadSamples(base: string, page: Page, kept: Kept): Promise<void> {
  const asked = (kept.samples ??= getDocument(base, "api/v1/gauges", asGauges).then((gauges) => page.loadSamples(gauges)));
  asked.catch(() => {
    if (kept.samples === asked) kept.samples = null;
  });
  return asked;
}

class Feed {
  private pending: Change[] = [];
  private flushAt = 0;
  private scheduled = false;
  /** While the whole state is being loaded, what streams in waits: it is newer. */
  private loading: object | null = null;
  private metricsAt = 0;
  /** Samples that wait to be shown. */
  private samples: ResourceRecord[] = [];
  private sampledAt = -Infinity;
  private sampler: ReturnType<typeof setTimeout> | undefined;
  /** Whether anything was asked for yet. */
  private begun = false;
  private runId: string | null = null;
  private loads = 0;
  private sawItRun = false;
  private readonly link: Link;

  constructor(
    private readonly base: string,
    private readonly page: Page,
    private readonly kept: Kept,
  ) {
    this.link = new Link(base, page.path.peek(), {
      event: (name, data) => this.receive(name, data),
      status: (connected, silentMs) => this.status(connected, silentMs),
      resync: () => void this.load(),
    });
  }

  start(): void {
    this.page.path.subscribe((path) => {
      this.link.setPath(path);
      this.page.curves.restart(path);
    });
    // The stream's greeting loads everything; what comes before it would be loaded twice.
    setTimeout(() => {
      if (!this.begun) void this.load();
    }, GREETING_MS);
  }

  private status(connected: boolean, silentMs: number): void {
    const { connection, heardAt } = this.page;
    if (connection.peek() === "other run") return;
    if (connected) {
      heardAt.value = Math.max(heardAt.peek(), performance.now() - silentMs);
      connection.value = this.page.model.peek().complete ? "over" : "live";
    } else if (this.page.model.peek().complete || isOver(this.page.run.peek())) {
      connection.value = "over";
      this.page.curves.frozen = true;
      this.kept.isAlone = true;
      this.link.close();
    } else if (connection.peek() !== "connecting" || performance.now() > 3000) {
      connection.value = "disconnected";
    }
  }

  private receive(name: string, data: string): void {
    this.page.heardAt.value = performance.now();
    if (this.page.connection.peek() === "other run") return;
    try {
      this.take(name, JSON.parse(data));
    } catch (error) {
      this.page.problem.value = `The page did not understand "${name}": ${String(error)}`;
    }
  }

  private take(name: string, value: unknown): void {
    const at = performance.now();
    switch (name) {
      case "hello":
        this.greet(asHello(value));
        break;
      case "run": {
        const run = asRun(value);
        this.sawItRun ||= !isOver(run);
        this.put({ kind: "run", run, at });
        break;
      }
      case "complete":
        this.put({ kind: "complete", run: asRun(value), at });
        this.page.connection.value = "over";
        this.keepEverything();
        setTimeout(() => void this.keepReport().catch(() => undefined), this.sawItRun ? 0 : SETTLED_MS);
        break;
      case "ranks":
        this.put({ kind: "ranks", ranks: asRanks(value), at });
        break;
      case "points": {
        const points = asPoints(value);
        this.page.curves.take(points);
        this.put({ kind: "points", points });
        break;
      }
      case "epoch":
        this.put({ kind: "epochs", epochs: [asEpoch(value)] });
        break;
      case "event":
        this.put({ kind: "events", events: [asEvent(value)] });
        break;
      case "resources":
        this.samples.push(...asResources(value));
        this.schedule(this.flushAt + FLUSH_MS);
        break;
    }
  }

  private greet(hello: ReturnType<typeof asHello>): void {
    if (this.runId !== null && hello.run !== this.runId) {
      this.page.connection.value = "other run";
      this.link.close();
      return;
    }
    this.runId = hello.run;
    this.page.connection.value = "live";
    if (!hello.resumed) {
      this.page.curves.greet();
      void this.load();
    }
  }

  private put(change: Change): void {
    this.pending.push(change);
    this.schedule(this.flushAt + FLUSH_MS);
  }

  private schedule(at: number): void {
    if (this.scheduled) return;
    this.scheduled = true;
    const wait = Math.max(0, at - performance.now());
    setTimeout(() => {
      // A hidden page gets no frames; its title goes on.
      if (document.hidden) this.flush();
      else requestAnimationFrame(() => this.flush());
    }, wait);
  }

  private flush(): void {
    this.scheduled = false;
    if (this.loading !== null) return;
    this.flushAt = performance.now();
    const changes = this.pending;
    this.pending = [];
    this.sampleNow();
    const resumes = this.page.resumes.peek();
    if (changes.length > 0) this.page.change(changes);
    if (this.page.resumes.peek() !== resumes) this.metricsAt = -Infinity; // some steps do not stand any more
    this.refreshMetrics(changes);
  }

  /** Very many hosts are sampled all the time, each seldom: what came is shown once a second. */
  private sampleNow(): void {
    if (this.samples.length === 0) return;
    const due = this.sampledAt + (this.page.everyone.peek().length > EAGER_RESOURCES_RANKS ? MANY_SAMPLES_MS : SAMPLES_MS);
    if (performance.now() < due) {
      this.sampler ??= setTimeout(() => {
        this.sampler = undefined;
        this.schedule(0);
      }, due - performance.now());
      return;
    }
    this.sampledAt = performance.now();
    const records = this.samples;
    this.samples = [];
    this.page.change([{ kind: "resources", records }]);
  }

  /** A name never seen brings its unit and reduction from the server, and counts are brought up to date now and then. */
  private refreshMetrics(changes: Change[]): void {
    const isNamed = changes.some((change) => change.kind === "points");
    const isNew = this.page.model.peek().metrics.some((metric) => metric.points === 0);
    const wait = isNew ? 1000 : METRICS_MS;
    if (!isNamed || performance.now() - this.metricsAt < wait) return;
    this.metricsAt = performance.now();
    getDocument(this.base, "api/v1/metrics", asMetrics)
      .then((metrics) => this.put({ kind: "metrics", metrics }))
      .catch(() => undefined);
  }

  private async load(): Promise<void> {
    const turn = {};
    this.begun = true;
    this.loading = turn;
    const at = performance.now();
    try {
      const [run, ranks, metrics, epochs, events] = await Promise.all([
        getDocument(this.base, "api/v1/run", asRun),
        getDocument(this.base, "api/v1/ranks", asRanks),
        getDocument(this.base, "api/v1/metrics", asMetrics),
        getDocument(this.base, "api/v1/epochs", asEpochs),
        getDocument(this.base, "api/v1/events", asEvents),
      ]);
      if (this.loading !== turn) return;
      if (this.runId !== null && run.id !== this.runId) return;
      this.runId = run.id;
      this.sawItRun ||= !isOver(run);
      this.page.problem.value = null;
      this.page.change([
        { kind: "run", run, at },
        { kind: "ranks", ranks, at },
        { kind: "metrics", metrics },
        { kind: "epochs", epochs },
        { kind: "events", events },
      ]);
      this.page.curves.restart(this.page.path.peek());
      const isAgain = this.loads++ > 0 && this.kept.samples !== null;
      if (isAgain) this.kept.samples = null;
      if (isAgain || ranks.length <= EAGER_RESOURCES_RANKS) void this.page.requests.resources().catch(() => undefined);
      void heating().catch(() => undefined);
      if (isOver(run)) this.keepEverything();
      else this.preload();
    } catch (error) {
      if (error instanceof HttpError) this.page.problem.value = error.message;
    } finally {
      if (this.loading === turn) this.loading = null;
      this.flush();
    }
  }

  private preload(): void {
    const { curves, model, view } = this.page;
    const { path, x } = view.peek();
    curves.preload(model.peek().metrics.map((metric) => curves.get(metric.name, path, x)));
  }

  /** The controller will leave: what may still be looked at is fetched now, finest first. */
  private keepEverything(): void {
    const { curves, model, requests, view } = this.page;
    const { run, ranks } = model.peek();
    const wanted = [requests.resources, ranks.some((rank) => rank.step_seconds !== null) && requests.heat, run?.has_graph === true && requests.graph, run?.has_svg === true && requests.svg];
    if (run?.has_graph === true) void arranging().catch(() => undefined);
    void writing().catch(() => undefined);
    for (const ask of wanted) if (ask !== false) void ask().catch(() => undefined);
    const names = model.peek().metrics.map((metric) => metric.name);
    const { path, x, ranks: spread } = view.peek();
    const lead = leadMetric(names);
    // The report's curves of single ranks are coarse where there are many: of what one looks at most, the fine ones.
    const own = new Set([...(lead === null ? [] : [lead]), ...spread]);
    curves.preload([
      ...names.flatMap((name) => [curves.get(name, path, x), curves.get(name, "root", "step")]),
      ...[...own].flatMap((name) => spreadOf(ranks).ranks.map((rank) => curves.get(name, rank.path, x))),
    ]);
  }

  /** All that the report holds: every path and axis, once the server itself has gone. */
  private async keepReport(): Promise<void> {
    const { page, kept } = this;
    const baked = await getDocument(this.base, "api/v1/report", asBaked);
    kept.source = bakedSource(baked.series, baked.run.started_at);
    page.heat.value ??= baked.heat;
    page.graph.value ??= baked.graph;
    page.svg.value ??= baked.svg;
  }
}
