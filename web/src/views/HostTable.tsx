import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import * as format from "../lib/format";
import { hostRows, oddHosts, sortedHosts, type HostColumn, type HostRow } from "../state/hosts";
import type { RankEntry, ResourceRecord } from "../wire/types.gen";
import { usePage } from "./context";
import { Find } from "./Find";
import { Name } from "./Name";
import { Spacer } from "./RankTable";
import { ScrollBox } from "./ScrollBox";
import { PathLink } from "./Trail";
import { useWindow } from "./window";

const COLUMNS: readonly { key: HostColumn; title: string; about: string; kind: "bar" | "rate" | "figure" }[] = [
  { key: "cpu", title: "CPU", about: "Of the CPUs that may be used", kind: "bar" },
  { key: "memory", title: "RAM", about: "Of the machine, or of the container's limit", kind: "bar" },
  { key: "gpu", title: "GPU", about: "Mean over the ranks' own devices", kind: "bar" },
  { key: "idlest", title: "idlest", about: "The least used of the ranks' own devices", kind: "bar" },
  { key: "vram", title: "VRAM", about: "Of the ranks' own devices", kind: "bar" },
  { key: "hottest", title: "hottest", about: "The warmest of the ranks' own devices", kind: "figure" },
  { key: "disk", title: "disk", about: "File system of the working directory", kind: "bar" },
  { key: "received", title: "received", about: "Network", kind: "rate" },
  { key: "sent", title: "sent", about: "Network", kind: "rate" },
];

/** Very many hosts, a line each; a cell that is unlike the others' stands out. */
export function HostTable({ hosts, ranks }: { hosts: ResourceRecord[]; ranks: RankEntry[] }) {
  const sort = useSignal<{ key: HostColumn; descending: boolean } | null>(null);
  const all = hostRows(hosts, ranks);
  const odd = oddHosts(all);
  const columns = COLUMNS.filter(({ key }) => all.some((row) => row[key] !== null));
  const words = usePage().view.value.find.toLowerCase().split(/\s+/);
  const rows = sortedHosts(all, odd, sort.value).filter(({ host }) => words.every((word) => host.toLowerCase().includes(word)));
  const { isLong, first, end, onScroll } = useWindow(rows.length);
  const toggle = (key: HostColumn) => (sort.value = { key, descending: sort.value?.key === key ? !sort.value.descending : true });
  return (
    <section class="panel" aria-label="Hosts">
      <header class="panel-head">
        <h2>Hosts</h2>
        <span class="panel-note">{summary(all, odd)}</span>
        <Find label="Find hosts" hint="name of a host" />
      </header>
      <ScrollBox class="table-box is-half" onScroll={onScroll}>
        <table class="table host-table" aria-label="Hosts" aria-rowcount={rows.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              <th>host</th>
              <th class="figure">ranks</th>
              {columns.map(({ key, title, about }) => (
                <th key={key} title={about} aria-sort={sort.value?.key !== key ? "none" : sort.value.descending ? "descending" : "ascending"}>
                  <button type="button" onClick={() => toggle(key)}>
                    {sort.value?.key === key && (sort.value.descending ? "▾ " : "▴ ")}
                    {title}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <Spacer rows={first} span={columns.length + 2} />}
            {rows.slice(first, end).map((row, i) => (
              <tr key={row.host} aria-rowindex={first + i + 2} class={odd.has(row.host) ? "is-slowest" : ""}>
                <td>{row.path === "root" ? <Name text={row.host} /> : <PathLink path={row.path} text={row.host} />}</td>
                <td class="figure">{row.ranks}</td>
                {columns.map(({ key, kind }) => (
                  <td key={key} class={odd.get(row.host)?.has(key) === true ? "is-odd" : ""}>
                    <Cell value={row[key]} kind={kind} isOdd={odd.get(row.host)?.has(key) === true} />
                  </td>
                ))}
              </tr>
            ))}
            {isLong && end < rows.length && <Spacer rows={rows.length - end} span={columns.length + 2} />}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  );
}

function Cell({ value, kind, isOdd }: { value: number | null; kind: "bar" | "rate" | "figure"; isOdd: boolean }): ComponentChildren {
  if (value === null) return format.UNKNOWN;
  const mark = isOdd ? <span aria-label="unlike the others">▲ </span> : null;
  if (kind === "rate") return <span class="figure">{mark}{format.bytes(value)}/s</span>;
  if (kind === "figure") return <span class="figure">{mark}{Math.round(value)} °C</span>;
  return (
    <span class="host-bar">
      <i aria-hidden="true">
        <b style={{ width: `${Math.min(100, value * 100)}%` }} />
      </i>
      <span class="figure">{mark}{format.percent(value)}</span>
    </span>
  );
}

function summary(rows: HostRow[], odd: ReadonlyMap<string, ReadonlySet<HostColumn>>): string {
  if (odd.size === 0) return `${rows.length} hosts, all alike`;
  const names = [...odd.keys()].slice(0, 3).join(", ");
  return `${rows.length} hosts; unlike the others: ${names}${odd.size > 3 ? ` and ${odd.size - 3} more` : ""}`;
}
