import * as format from "../lib/format";
import { csv } from "../lib/csv";
import { safe, save } from "../lib/save";
import { bestOf, metricColumns } from "../state/epochs";
import { isSuperseded } from "../state/resumes";
import { real } from "../wire/numbers";
import type { EpochRecord } from "../wire/types.gen";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { Icon } from "./Icon";
import { Name } from "./Name";
import { ScrollBox } from "./ScrollBox";

/** Newest first, one column per metric, the best value of each marked. */
export function Epochs() {
  const page = usePage();
  const { epochs, run } = page.model.value;
  if (epochs.length === 0) {
    return (
      <Empty title="No epoch yet">
        An epoch is listed when every live rank has reported it: <code>for epoch in mon.epochs(): …</code> or <code>mon.log_epoch(epoch, {"{…}"})</code>.
      </Empty>
    );
  }
  const metrics = metricColumns(epochs);
  const resumes = page.resumes.value;
  const best = new Map(metrics.map((name) => [name, bestOf(name, epochs, resumes)]));
  const isPast = epochs.some((record) => isSuperseded(record, resumes));
  const tagOf = (record: EpochRecord): Tag => {
    if (isSuperseded(record, resumes)) return ["before the resume", "The resumed run trains it again"];
    return record.complete ? null : ["incomplete", "Cut short, or not told by every rank"];
  };
  const hasGpu = epochs.some((record) => record.gpu !== null || record.vram_used !== null);
  const load: Load = hasGpu ? "gpu" : epochs.some((record) => record.cpu !== null) ? "cpu" : null;
  return (
    <section class="panel epochs" aria-label="Epochs">
      <header class="panel-head">
        <h2>Epochs</h2>
        <span class="panel-note">
          means over ranks; ★ best {page.isOver.value ? "" : "so far "}of whole epochs
          {isPast && "; what the resumed run trains again is pale"}
        </span>
        <button type="button" class="chip" onClick={() => save(`${safe(run?.name ?? "run")}-epochs.csv`, "text/csv;charset=utf-8", epochsCsv(epochs, metrics))}>
          <Icon name="down" /> CSV
        </button>
      </header>
      <ScrollBox class="table-box" tabIndex={0} role="group" aria-label="Table, scrolls sideways">
        <table class="table" aria-label="Epochs">
          <thead>
            <tr>
              <th class="figure">epoch</th>
              {metrics.map((name) => (
                <th key={name} class="figure">
                  <Name text={name} />
                </th>
              ))}
              <th class="figure">took</th>
              <th class="figure">samples/s</th>
              {load !== null && <th class="figure">{load}</th>}
              <th class="figure">ranks</th>
              <th class="figure">ended</th>
            </tr>
          </thead>
          <tbody>
            {[...epochs].reverse().map((record) => (
              <Row key={record.epoch} record={record} number={record.epoch + page.epochOffset.value} tag={tagOf(record)} metrics={metrics} best={best} load={load} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  );
}

/** Which load there is to show, if any. */
type Load = "gpu" | "cpu" | null;

/** What is not as it should be with an epoch, in a word and in a sentence. */
type Tag = readonly [word: string, why: string] | null;

interface RowProps {
  record: EpochRecord;
  number: number;
  tag: Tag;
  metrics: string[];
  best: Map<string, number | null>;
  load: Load;
}

function Row({ record, number, tag, metrics, best, load }: RowProps) {
  return (
    <tr class={tag === null ? "" : "is-open"}>
      <td class="figure">
        {tag !== null && (
          <span class="tag" title={tag[1]}>
            {tag[0]}
          </span>
        )}{" "}
        {number}
      </td>
      {metrics.map((name) => {
        const isBest = best.get(name) === record.epoch;
        const value = real(record.metrics[name]);
        const isBad = value !== null && !Number.isFinite(value);
        return (
          <td key={name} class={`figure ${isBest ? "is-best" : isBad ? "is-bad" : ""}`}>
            {isBest && <span title="best so far">★ </span>}
            {isBad && "✕ "}
            {format.metric(value)}
          </td>
        );
      })}
      <td class="figure">{format.duration(record.seconds)}</td>
      <td class="figure">{format.compact(record.throughput)}</td>
      {load !== null && <td class="figure">{format.percent(record[load])}</td>}
      <td class="figure">{record.ranks}</td>
      <td class="figure" title={format.moment(record.ended_at)}>
        {record.ended_at === null ? format.UNKNOWN : format.when(record.ended_at)}
      </td>
    </tr>
  );
}

/** As `export_csv` writes it: the union of all epochs' metrics, an unknown cell is empty. */
export function epochsCsv(epochs: EpochRecord[], metrics: string[]): string {
  const header = ["epoch", "duration_s", ...metrics, "cpu_pct", "ram_used", "gpu_pct", "vram_used", "vram_total"];
  const percent = (ratio: number | null) => (ratio === null ? null : Math.round(ratio * 1000) / 10);
  const rows = epochs.map((record) => [
    record.epoch,
    record.seconds,
    ...metrics.map((name) => real(record.metrics[name])),
    percent(record.cpu),
    record.memory_used,
    percent(record.gpu),
    record.vram_used,
    record.vram_total,
  ]);
  return csv(header, rows);
}
