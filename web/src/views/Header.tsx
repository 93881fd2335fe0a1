import * as format from "../lib/format";
import { isByHand } from "../state/model";
import type { Theme } from "../state/page";
import { heardSeconds } from "./clocks";
import { usePage } from "./context";
import { Icon, type IconName } from "./Icon";
import { Name } from "./Name";
import { Trail } from "./Trail";

/** Who this run is and whether it lives: the first line of the page. */
export function Header() {
  const page = usePage();
  const run = page.run.value;
  return (
    <header class="header">
      <StatePill />
      <h1 class="run-name">
        <Name text={run?.name ?? "Trackside"} />
      </h1>
      {run?.label != null && <Name class="run-label" text={run.label} title={`Model: ${run.label}`} />}
      {run?.hash != null && <Name class="run-hash" text={run.hash.slice(0, 8)} title={`Structural hash of the model: ${run.hash}`} />}
      <Trail />
      <span class="header-end">
        <LinkState />
        <ThemeSwitch />
      </span>
    </header>
  );
}

export function stateWord(page: ReturnType<typeof usePage>): IconName & string {
  const { connection, run } = page;
  if (connection.value === "disconnected" && !page.isOver.value) return "disconnected";
  return run.value?.state ?? "waiting";
}

/** The state for people: a run that somebody stopped with Ctrl-C was stopped. */
export function shownWord(page: ReturnType<typeof usePage>): string {
  const word = stateWord(page);
  return word === "terminated" && isByHand(page.run.value) ? "stopped" : word;
}

function StatePill() {
  const page = usePage();
  const word = stateWord(page);
  const shown = shownWord(page);
  const detail = page.run.value?.state_detail ?? null;
  return (
    <span class={`pill is-${word}`} role="status" aria-label={`State: ${shown}`} title={detail ?? shown}>
      <Icon name={word} />
      {shown}
    </span>
  );
}

/** The page's own link: live with the age of the last message, or why not. */
function LinkState() {
  const page = usePage();
  const state = page.connection.value;
  if (state === "report") return <span class="link-state">report</span>;
  if (state === "over") return <span class="link-state">run over · kept here</span>;
  if (state === "connecting") return <span class="link-state">connecting …</span>;
  if (state === "other run") return <span class="link-state is-bad">another run</span>;
  const age = heardSeconds(page);
  const isQuiet = state === "live" && age > 5;
  const word = state === "disconnected" ? "no link" : isQuiet ? "quiet" : "live";
  return (
    <span class={`link-state ${state === "disconnected" ? "is-bad" : isQuiet ? "is-warn" : "is-live"}`} title="Age of the last message from the controller">
      <Icon name={state === "disconnected" ? "disconnected" : "link"} />
      {word} <span class="figure">{format.age(age)}</span>
    </span>
  );
}

const NEXT: Record<Theme, Theme> = { system: "dark", dark: "light", light: "system" };

function ThemeSwitch() {
  const page = usePage();
  const theme = page.theme.value;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`Theme: ${theme}. Switch to ${NEXT[theme]}`}
      title={`Theme: ${theme}`}
      onClick={() => page.setTheme(NEXT[theme])}
    >
      <Icon name={theme} />
    </button>
  );
}
