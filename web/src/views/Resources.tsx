import { useEffect } from "preact/hooks";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import { latestOfHosts } from "../state/load";
import type { GpuSample, RankEntry, ResourceRecord } from "../wire/types.gen";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { GaugeCharts } from "./GaugeCharts";
import { HostTable } from "./HostTable";
import { Meter } from "./Meter";
import { Name } from "./Name";
import { PathLink } from "./Trail";
import { ratio } from "./Vitals";

/** So many hosts have a card each; more are lines of a table. */
const MOST_CARDS = 16;

/** Is the hardware used? Bars for now, curves over time. */
export function Resources() {
  const page = usePage();
  useEffect(() => void page.requests.resources().catch(() => undefined), []);
  const resources = page.resources.value;
  const path = page.path.value;
  const ranks = page.ranks.value;
  const below = new Set(ranks.map((rank) => rank.host));
  const hosts = [...latestOfHosts(resources).values()].filter((host) => path === "root" || below.has(host.host)).sort((a, b) => inOrder.compare(a.host, b.host));
  const sampled = new Set(hosts.map((host) => host.host));
  const withoutHost = ranks.filter((rank) => rank.host === null || !sampled.has(rank.host));
  if (hosts.length === 0 && resources.length === 0) {
    return (
      <Empty title="No sample yet">
        Ranks sample their hosts every two seconds unless <code>resources=False</code> was given. What cannot be read is left out, never shown as 0.
      </Empty>
    );
  }
  return (
    <section aria-label="Resources">
      {hosts.length > MOST_CARDS && <HostTable hosts={hosts} ranks={ranks} />}
      <div class="hosts">
        {hosts.length <= MOST_CARDS &&
          hosts.map((host) => <HostCard key={host.path} host={host} ranks={ranks.filter((rank) => rank.host === host.host)} />)}
        {withoutHost.length > 0 && hosts.length > 0 && (
          <p class="panel-note">No sample from the hosts of {withoutHost.length} ranks.</p>
        )}
      </div>
      <GaugeCharts />
    </section>
  );
}

const inOrder = new Intl.Collator("en", { numeric: true });

function HostCard({ host, ranks }: { host: ResourceRecord; ranks: RankEntry[] }) {
  const page = usePage();
  const isOver = page.isOver.value;
  const memoryLimit = containerOf(host.memory_limit_source);
  const cpuLimit = containerOf(host.cpu_limit_source);
  return (
    <article class="panel host" aria-label={plain(host.host)}>
      <header class="panel-head">
        <h2>
          {host.path === "root" ? <Name text={host.host} /> : <PathLink path={host.path} text={host.host} />}
        </h2>
        <span class="panel-note">
          {ranks.length} {ranks.length === 1 ? "rank" : "ranks"}
          {isOver && ` · last sample ${format.timeOfDay(host.time)} ${format.zone(new Date(host.time * 1000))}`}
        </span>
      </header>
      <div class="meters">
        {host.cpu !== null && (
          <Meter label="CPU" ratio={host.cpu} text={`${format.percent(host.cpu)}${cpuLimit === null ? "" : " *"}`} title={cpuTitle(host)} />
        )}
        {host.memory_used !== null && (
          <Meter
            label="RAM"
            isLimit
            ratio={ratio(host.memory_used, host.memory_total)}
            text={`${format.bytesOf(host.memory_used, host.memory_total)}${memoryLimit === null ? "" : " *"}`}
            title={memoryLimit === null ? "Of the machine" : `Limit of the container (${memoryLimit})`}
          />
        )}
        {host.disk_used !== null && <Meter isLimit label="Disk" ratio={ratio(host.disk_used, host.disk_total)} text={format.bytesOf(host.disk_used, host.disk_total)} title="File system of the working directory" />}
      </div>
      <dl class="rates">
        <Rate label="received" value={host.network_received} />
        <Rate label="sent" value={host.network_sent} />
        <Rate label="disk read" value={host.disk_read} />
        <Rate label="disk written" value={host.disk_written} />
      </dl>
      {(memoryLimit ?? cpuLimit) !== null && <p class="footnote">* limit of the container, {memoryLimit ?? cpuLimit}</p>}
      {host.gpus.length > 0 && <Gpus gpus={host.gpus} />}
    </article>
  );
}

/** Which version of control groups limits it; null: the machine itself does. */
function containerOf(source: string | null): string | null {
  return source?.startsWith("cgroup") === true ? source : null;
}

function cpuTitle(host: ResourceRecord): string {
  const limit = containerOf(host.cpu_limit_source);
  if (host.cpu_count === null) return "Of the machine";
  const count = `${host.cpu_count} ${host.cpu_count === 1 ? "CPU" : "CPUs"}`;
  if (limit !== null) return `Of ${count}, the limit of the container (${limit})`;
  return host.cpu_limit_source === "affinity" ? `Of the ${count} that the job may run on` : `Of the machine's ${count}`;
}

function Rate({ label, value }: { label: string; value: number | null }) {
  if (value === null) return null;
  return (
    <div>
      <dt>{label}</dt>
      <dd class="figure">{format.bytes(value)}/s</dd>
    </div>
  );
}

/** A line a device; the name that all have stands once. */
function Gpus({ gpus }: { gpus: GpuSample[] }) {
  const owners = usePage().everyone.value;
  const names = new Set(gpus.map((gpu) => gpu.name));
  const only = names.size === 1 ? (gpus[0]?.name ?? null) : null;
  const hasPeak = gpus.some((gpu) => gpu.util_peak !== null || gpu.memory_peak !== null);
  return (
    <section class="gpus" aria-label="GPUs">
      <p class="gpus-head panel-note">
        {only !== null && (
          <span>
            {gpus.length} × <Name text={only} />
          </span>
        )}
        {hasPeak && (
          <span class="gpus-key">
            <i aria-hidden="true" /> mean, <b aria-hidden="true" /> peak of the interval
          </span>
        )}
      </p>
      <ul>
        {gpus.map((gpu) => (
          <GpuRow key={gpu.uuid ?? gpu.index} gpu={gpu} isNamed={only === null} owner={owners.find((rank) => rank.gpu?.uuid != null && rank.gpu.uuid === gpu.uuid) ?? null} />
        ))}
      </ul>
    </section>
  );
}

function GpuRow({ gpu, isNamed, owner }: { gpu: GpuSample; isNamed: boolean; owner: RankEntry | null }) {
  const isOurs = gpu.ours ?? owner !== null;
  const peak = gpu.util_peak === null ? "" : `, peak ${format.percent(gpu.util_peak)}`;
  return (
    <li class={isOurs ? "is-ours" : ""}>
      <span class="gpu-head">
        <span class="figure">gpu {gpu.index}</span>
        {isNamed && gpu.name !== null && <Name text={gpu.name} />}
        {isOurs ? owner === null ? <span class="tag">ours</span> : <PathLink path={owner.path} text={`rank${owner.rank}`} /> : <span class="tag">not ours</span>}
      </span>
      {gpu.util !== null ? (
        <Meter label="busy" ratio={gpu.util} peak={gpu.util_peak} text={`${format.percent(gpu.util)}${peak}`} title="Mean and peak of the interval" />
      ) : (
        <span class="panel-note">{gpu.mig ? "utilisation is not available on MIG" : "utilisation unknown"}</span>
      )}
      {gpu.memory_used !== null && (
        <Meter
          isLimit
          label="VRAM"
          ratio={ratio(gpu.memory_used, gpu.memory_total)}
          peak={ratio(gpu.memory_peak, gpu.memory_total)}
          text={format.bytesOf(gpu.memory_used, gpu.memory_total)}
          title={`Mean of the interval; peak ${format.bytes(gpu.memory_peak)}`}
        />
      )}
      <span class="gpu-facts figure">
        {gpu.temperature !== null && <span>{Math.round(gpu.temperature)} °C</span>}
        {gpu.power !== null && (
          <span>
            {Math.round(gpu.power)}
            {gpu.power_limit !== null && ` / ${Math.round(gpu.power_limit)}`} W
          </span>
        )}
        {gpu.clock_limits.length > 0 && <span class="tag is-warn">▲ clocks limited: {gpu.clock_limits.map(plain).join(", ")}</span>}
      </span>
    </li>
  );
}
