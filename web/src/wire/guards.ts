// The edge: what comes in is checked here and trusted behind it. A field that an older or newer server leaves out gets the
// struct's default; an answer of the wrong shape is refused.

import { asDiagnosis, asHeat } from "./diagnosis";
import { asGraph } from "./graph";
import { fields, filled, list, sameLengths } from "./shape";
import type {
  Baked,
  BakedSeries,
  EpochRecord,
  EventRecord,
  GaugesAnswer,
  GaugeTrack,
  GraphDocument,
  MetricEntry,
  PointsEvent,
  PointsUpdate,
  RankEntry,
  ResourceRecord,
  RunDocument,
  SeriesAnswer,
  StreamHello,
} from "./types.gen";

export function asRun(value: unknown): RunDocument {
  const run = filled<RunDocument>(
    value,
    "run",
    { id: "string", name: "string", state: "string", ranks: "object" },
    {
      state_detail: null, started_at: 0, ended_at: null, elapsed_seconds: 0, epoch: null, epochs: null, step: null,
      steps: null, eta_seconds: null, world_size: null, generation: 0, hosts: [], label: null, hash: null,
      hardware: null, metadata: null, warnings: [], version: "", throughput: null, environment: {}, directory: null,
      not_persisted_since: null, clock_offset_max: null, diagnosis: null, has_graph: false, has_svg: false,
      schema_version: 1,
    },
  );
  return run.diagnosis === null ? run : { ...run, diagnosis: asDiagnosis(run.diagnosis) };
}

function asRank(value: unknown): RankEntry {
  return filled<RankEntry>(
    value,
    "rank",
    { rank: "number", path: "string", state: "string" },
    {
      local_rank: null, host: null, label: "", generation: 0, step: null, epoch: null, phase: null, age_seconds: null,
      exit_code: null, signal: null, samples: null, throughput: null, batch_share: null, clock_offset_seconds: null,
      gpu: null, cpu: null, memory: null, step_seconds: null, own_step_seconds: null, phases: {}, machine_id: null,
      identity_source: null, pid: null, monitored: true, non_finite: 0, dropped_points: 0, restarts: 0, verdict: null,
      suggested_share: null,
    },
  );
}

export function asRanks(value: unknown): RankEntry[] {
  return list(value, "ranks").map(asRank);
}

export function asMetrics(value: unknown): MetricEntry[] {
  return list(value, "metrics").map((item) =>
    filled<MetricEntry>(
      item,
      "metric",
      { name: "string" },
      {
        kind: "gauge", unit: null, reduction: "mean", paths: [], rank_count: 0, points: 0, first_step: null,
        last_step: null, last: null, non_finite: 0,
      },
    ),
  );
}

export function asEpoch(value: unknown): EpochRecord {
  return filled<EpochRecord>(
    value,
    "epoch",
    { epoch: "number", metrics: "object" },
    {
      seconds: null, samples: null, batches: null, throughput: null, ranks: 0, complete: true, ended_at: null,
      cpu: null, memory_used: null, memory_total: null, gpu: null, vram_used: null, vram_total: null,
    },
  );
}

export function asEpochs(value: unknown): EpochRecord[] {
  return list(value, "epochs").map(asEpoch);
}

export function asEvent(value: unknown): EventRecord {
  return filled<EventRecord>(
    value,
    "event",
    { id: "number", time: "number", kind: "string", severity: "string", text: "string" },
    { path: "root", count: 1, step: null, last_time: null, active: false },
  );
}

export function asEvents(value: unknown): EventRecord[] {
  return list(value, "events").map(asEvent);
}

export function asResources(value: unknown): ResourceRecord[] {
  const records = Array.isArray(value) ? value : list(fields(value, "resources")["records"], "resources.records");
  return records.map((item) =>
    filled<ResourceRecord>(
      item,
      "resource",
      { time: "number", path: "string", host: "string" },
      {
        rank: null, cpu: null, memory_used: null, memory_total: null, memory_limit_source: null, cpu_count: null,
        cpu_limit_source: null, network_sent: null,
        network_received: null, disk_read: null, disk_written: null, disk_used: null, disk_total: null, gpu_util: null,
        gpu_util_peak: null, vram_used: null, vram_total: null, temperature: null, power: null, torch_allocated: null,
        torch_reserved: null, gpus: [],
      },
    ),
  );
}

/** Samples as columns, each as long as its track's times. */
export function asGauges(value: unknown): GaugesAnswer {
  const answer = filled<GaugesAnswer>(value, "gauges", { origin: "number", tracks: "list" }, { latest: [] });
  for (const track of answer.tracks) {
    const { time, values } = filled<GaugeTrack>(track, "gauges.track", { path: "string", host: "string", time: "list", values: "object" }, {});
    sameLengths({ ...values, time }, "gauges.track", ["time", ...Object.keys(values)]);
  }
  return { ...answer, latest: asResources(answer.latest) };
}

export function asHello(value: unknown): StreamHello {
  return filled<StreamHello>(value, "hello", { run: "string" }, {
    protocol: 0, version: "", path: "root", server_time: 0, resumed: false,
  });
}

const COLUMNS = { mean: "list", min: "list", max: "list", count: "list" } as const;

export function asSeries(value: unknown): SeriesAnswer {
  const answer = filled<SeriesAnswer>(
    value,
    "series",
    { metric: "string", path: "string", x: "list", ...COLUMNS },
    { total_points: 0, reduction: "mean", x_kind: "step", decimated: false, non_finite: [] },
  );
  sameLengths(fields(value, "series"), "series", ["x", "mean", "min", "max", "count"]);
  return answer;
}

export function asPoints(value: unknown): PointsEvent {
  const metrics: Record<string, PointsUpdate> = {};
  for (const [name, update] of Object.entries(fields(fields(value, "points")["metrics"], "points.metrics"))) {
    metrics[name] = filled<PointsUpdate>(
      update,
      "points",
      { step: "list", epoch: "list", time: "list", ...COLUMNS },
      { worst: [] },
    );
    sameLengths(fields(update, "points"), "points", ["step", "epoch", "time", "mean", "min", "max", "count"]);
  }
  return { metrics };
}

function asBakedSeries(value: unknown): BakedSeries {
  const series = filled<BakedSeries>(
    value,
    "series",
    { metric: "string", path: "string", step: "list", epoch: "list", time: "list", ...COLUMNS },
    { total_points: 0, reduction: "mean", non_finite: [] },
  );
  sameLengths(fields(value, "series"), "series", ["step", "epoch", "time", "mean", "min", "max", "count"]);
  return series;
}

/** All a report holds. */
export function asBaked(value: unknown): Baked & { graph: GraphDocument | null } {
  const from = fields(value, "report");
  return {
    written_at: typeof from["written_at"] === "number" ? from["written_at"] : 0,
    run: asRun(from["run"]),
    ranks: asRanks(from["ranks"] ?? []),
    metrics: asMetrics(from["metrics"] ?? []),
    epochs: asEpochs(from["epochs"] ?? []),
    events: asEvents(from["events"] ?? []),
    resources: asResources(from["resources"] ?? []),
    series: list(from["series"] ?? [], "report.series").map(asBakedSeries),
    graph: asGraph(from["graph"]),
    svg: typeof from["svg"] === "string" ? from["svg"] : null,
    heat: from["heat"] ? asHeat(from["heat"]) : null,
  };
}
