import { useSignal } from "@preact/signals";
import * as format from "../lib/format";
import { plain, plainLines } from "../lib/text";
import { toggled } from "../state/page";
import { treeRows, type TreeRow } from "../state/tree";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { Icon } from "./Icon";

/** What this run was: the user's metadata, and the environment it ran in. */
export function Config() {
  const page = usePage();
  const run = page.run.value;
  const environment = environmentOf(page.model.value.run);
  return (
    <div class="two-columns">
      <section class="panel" aria-label="Metadata">
        {run?.metadata == null ? (
          <>
            <header class="panel-head">
              <h2>Metadata</h2>
            </header>
            <Empty title="No metadata">
              Say what this run is: <code>Monitor(config={"{…}"})</code> or <code>mon.set_metadata({"{…}"})</code>.
            </Empty>
          </>
        ) : (
          <Tree title="Metadata" value={run.metadata} />
        )}
      </section>
      <section class="panel" aria-label="Environment">
        <Tree title="Environment" value={environment} />
      </section>
    </div>
  );
}

function environmentOf(run: ReturnType<typeof usePage>["run"]["value"]): Record<string, unknown> {
  if (run === null) return {};
  const facts: Record<string, unknown> = {
    run: run.id,
    directory: run.directory,
    hosts: run.hosts,
    hardware: run.hardware,
    "world size": run.world_size,
    generation: run.generation,
    "largest clock offset": run.clock_offset_max === null ? null : format.fine(run.clock_offset_max),
    trackside: run.version,
    ...run.environment,
    // Told in words: by Events, and by the time that the run took.
    resumed: null,
    paused_seconds: null,
    command: commandOf(run.environment["command"]),
  };
  return known(facts) as Record<string, unknown>;
}

/** As it was typed, as far as that can be told. */
function commandOf(command: unknown): unknown {
  return Array.isArray(command) ? command.map((part) => (/[\s"'$]/.test(String(part)) ? JSON.stringify(part) : String(part))).join(" ") : command;
}

/** Without what is not known, at any depth; bytes as people read them. */
function known(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const facts = Object.entries(value).map(([key, item]) => (key === "memory_bytes" && typeof item === "number" ? (["memory", format.bytes(item)] as const) : ([key, known(item)] as const)));
  return Object.fromEntries(facts.filter(([, item]) => item !== null && item !== undefined));
}

const INDENT_PX = 16;

function Tree({ title, value }: { title: string; value: unknown }) {
  const query = useSignal("");
  const changed = useSignal<ReadonlySet<string>>(new Set());
  const copied = useSignal(false);
  const { rows, isCut } = treeRows(value, query.value, changed.value);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(value, null, 2));
      copied.value = true;
      setTimeout(() => (copied.value = false), 1500);
    } catch {
      copied.value = false;
    }
  };
  return (
    <>
      <header class="panel-head">
        <h2>{title}</h2>
        <label class="field is-search is-narrow">
          <Icon name="search" />
          <input type="search" placeholder="search" aria-label={`Search ${title}`} value={query.value} onInput={(event) => (query.value = event.currentTarget.value)} />
        </label>
        <button type="button" class="chip" onClick={() => void copy()}>
          <Icon name="copy" /> {copied.value ? "copied" : "copy"}
        </button>
      </header>
      <ul class="tree" aria-label={title}>
        {rows.map((row) => (
          <Row key={row.pointer} row={row} onToggle={() => (changed.value = toggled(changed.value, row.pointer))} />
        ))}
        {rows.length === 0 && <li class="tree-none">nothing matches</li>}
        {isCut && <li class="tree-none">… more; fold or search to see it</li>}
      </ul>
    </>
  );
}

function Row({ row, onToggle }: { row: TreeRow; onToggle(): void }) {
  const indent = { paddingLeft: `min(${row.depth * INDENT_PX}px, 34%)` };
  if (row.text !== null) {
    return (
      <li class="tree-row" style={indent}>
        {row.key !== "" && <bdi class="tree-key">{plain(row.key)}</bdi>}
        <bdi class="tree-value">{plainLines(row.text)}</bdi>
      </li>
    );
  }
  return (
    <li class="tree-row" style={indent}>
      <button type="button" class="tree-branch" aria-expanded={row.isOpen} onClick={onToggle}>
        <Icon name="chevron" class={row.isOpen ? "is-open" : ""} />
        <bdi class="tree-key">{plain(row.key)}</bdi>
        <span class="tree-size">{row.size}</span>
      </button>
    </li>
  );
}
