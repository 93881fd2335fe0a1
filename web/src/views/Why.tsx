import { useSignal } from "@preact/signals";
import * as format from "../lib/format";
import { plain, sentence } from "../lib/text";
import { comparison, findingsAt } from "../state/diagnosis";
import { partsOf, phaseNames } from "../state/phases";
import { isOtherShare } from "../state/standings";
import type { Diagnosis, SharePart, Verdict } from "../wire/types.gen";
import { usePage } from "./context";
import { Icon } from "./Icon";
import { Name } from "./Name";
import { PhaseFigures, spoken, Stack } from "./PhaseBar";
import { Tip } from "./Tip";
import { PathLink } from "./Trail";

const SHOWN = 5;
/** On a phone the charts come first; the few words stay. */
const NARROW = "(max-width: 720px)";

/** What the job's time goes into, who is behind, and what it would gain. */
export function Why() {
  const page = usePage();
  const diagnosis = page.run.value?.diagnosis ?? null;
  const isOpen = useSignal(!matchMedia(NARROW).matches);
  return (
    <section class="why panel" aria-label="Why">
      <header class="panel-head">
        <h2>
          <button type="button" class="fold" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
            <Icon name="chevron" class={isOpen.value ? "is-open" : ""} />
            Why
          </button>
        </h2>
        {diagnosis?.bound != null && <span class="tag is-bound">bound by {diagnosis.bound}</span>}
        {diagnosis !== null && isOpen.value && <StepTime diagnosis={diagnosis} />}
        {!isOpen.value && <span class="panel-note">{headline(diagnosis, page.path.value)}</span>}
      </header>
      {isOpen.value && (diagnosis === null ? <Unknown /> : <Known diagnosis={diagnosis} />)}
    </section>
  );
}

/** All of it in a few words, for where it is folded. */
function headline(diagnosis: Diagnosis | null, path: string): string {
  if (diagnosis === null) return "not known yet";
  const [worst, ...others] = findingsAt(diagnosis, path).active;
  if (worst === undefined) return "nobody is behind";
  const who = worst.rank === null ? "" : ` of rank ${worst.rank}`;
  return `${plain(worst.kind)}${who}${others.length > 0 ? ` and ${others.length} more` : ""}`;
}

function Unknown() {
  const page = usePage();
  const words = page.isOver.value
    ? "No steps were timed, so nothing can be said about who was slow."
    : "Not known yet. Each rank's own time is compared over some 20 steps before anything is said.";
  return <p class="why-quiet">{words}</p>;
}

function StepTime({ diagnosis }: { diagnosis: Diagnosis }) {
  if (diagnosis.step_seconds === null) return null;
  return (
    <span class="panel-note figure">
      {format.fine(diagnosis.step_seconds)} a step, last {format.count(diagnosis.steps)}
    </span>
  );
}

function Known({ diagnosis }: { diagnosis: Diagnosis }) {
  const page = usePage();
  const { active, over } = findingsAt(diagnosis, page.path.value);
  const elsewhere = active.length > 0 ? undefined : diagnosis.verdicts.find((verdict) => verdict.active);
  const isAlone = page.everyone.value.length < 2;
  return (
    <div class="why-body">
      <JobPhases diagnosis={diagnosis} />
      {active.length === 0 && (
        <p class="why-fine">
          <Icon name="finished" /> <strong>{isAlone ? "Nothing stands out." : elsewhere === undefined ? "Nobody is behind." : "Nobody here is behind."}</strong>{" "}
          {elsewhere !== undefined && (
            <>
              Elsewhere <PathLink path={elsewhere.path} text={elsewhere.rank === null ? elsewhere.path : `rank ${elsewhere.rank}`} /> is: {plain(elsewhere.kind)}.{" "}
            </>
          )}
          {sentence(diagnosis.bound_text)}
        </p>
      )}
      {active.length > 0 && diagnosis.bound_text !== "" && <p>{sentence(diagnosis.bound_text)}</p>}
      {active.length > 0 && diagnosis.gain_ratio !== null && diagnosis.gain_ratio > 0 && (
        <p class="why-gain">
          <strong class="figure">−{format.percent(diagnosis.gain_ratio)}</strong> of the step time if nobody were behind
        </p>
      )}
      {active.length > 0 && (
        <ul class="verdicts" aria-label="Verdicts">
          {active.slice(0, SHOWN).map((verdict) => (
            <Finding key={verdict.id} verdict={verdict} />
          ))}
        </ul>
      )}
      {active.length > SHOWN && <p class="why-quiet">and {active.length - SHOWN} more, under Events</p>}
      {diagnosis.balance.length > 0 && <Balance parts={diagnosis.balance} />}
      {over.length > 0 && (
        <details class="why-over">
          <summary>
            {over.length} {over.length === 1 ? "verdict is" : "verdicts are"} over
          </summary>
          <ul class="verdicts">
            {over.slice(0, SHOWN * 2).map((verdict) => (
              <Finding key={verdict.id} verdict={verdict} />
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** The usual rank's step as one bar. */
function JobPhases({ diagnosis }: { diagnosis: Diagnosis }) {
  const names = phaseNames([diagnosis.phases]);
  const parts = partsOf(diagnosis.phases, names);
  if (parts.length === 0) return null;
  const whole = parts.reduce((sum, { seconds }) => sum + seconds, 0);
  return (
    <Tip label={`Phases of the job: ${spoken(parts)}`} content={() => <PhaseFigures title="median of the ranks" parts={parts} names={names} />}>
      <Stack parts={parts} names={names} longest={whole} />
    </Tip>
  );
}

function Finding({ verdict }: { verdict: Verdict }) {
  return (
    <li class={`verdict ${verdict.active ? "" : "is-over"}`}>
      <p class="verdict-head">
        <Icon name={verdict.active ? "warn" : "finished"} />
        <strong>{plain(verdict.kind)}</strong>
        <PathLink path={verdict.path} text={verdict.rank === null ? verdict.path : `rank ${verdict.rank}`} />
        {verdict.gain_seconds !== null && verdict.gain_seconds > 0 && (
          <span class="verdict-gain figure" title="What a step of the whole job would gain">
            −{format.fine(verdict.gain_seconds)} a step
          </span>
        )}
      </p>
      <p title={verdict.claim === "" ? undefined : plain(verdict.text)}>{sentence(verdict.claim === "" ? verdict.text : verdict.claim)}</p>
      <Evidence verdict={verdict} />
      <p class="verdict-facts">
        <Pattern verdict={verdict} />
        {verdict.module !== null && <ModuleLink name={verdict.module} />}
      </p>
    </li>
  );
}

/** The two times that the verdict rests on, drawn to one scale. */
function Evidence({ verdict }: { verdict: Verdict }) {
  const lengths = comparison(verdict);
  if (lengths === null) return null;
  const phase = verdict.phase === null ? "step" : plain(verdict.phase);
  return (
    <dl class="evidence" aria-label={`${phase}, mean of ${verdict.steps} steps`}>
      <dt>{verdict.rank === null ? phase : `${phase}, rank ${verdict.rank}`}</dt>
      <dd>
        <i class="is-own" aria-hidden="true" style={{ width: `${lengths.own * 100}%` }} />
        <span class="figure">{format.fine(verdict.own_seconds)}</span>
      </dd>
      <dt>{verdict.rank === null ? "usual" : "its peers"}</dt>
      <dd>
        <i aria-hidden="true" style={{ width: `${lengths.peers * 100}%` }} />
        <span class="figure">{format.fine(verdict.peer_seconds)}</span>
      </dd>
    </dl>
  );
}

const PATTERNS: Record<Verdict["pattern"], string> = { once: "one-off", recurring: "comes and goes", chronic: "all the time" };

function Pattern({ verdict }: { verdict: Verdict }) {
  const { since_step: since, until_step: until } = verdict;
  const when = since === null ? "" : until === null ? `since step ${format.count(since)}` : `steps ${format.count(since)} to ${format.count(until)}`;
  return <span class="figure">{[when, PATTERNS[verdict.pattern] ?? plain(verdict.pattern)].filter((word) => word !== "").join(" · ")}</span>;
}

function ModuleLink({ name }: { name: string }) {
  const page = usePage();
  return (
    <span>
      in{" "}
      <button type="button" class="link" title="Show it in the model" onClick={() => page.show({ tab: "model", module: name }, true)}>
        <Name text={name} />
      </button>
    </span>
  );
}

/** The split of the batch that would equalise the ranks' times, those that change most first. */
function Balance({ parts }: { parts: SharePart[] }) {
  const telling = parts.filter(({ share, suggested }) => isOtherShare(share, suggested));
  const most = telling.sort((a, b) => Math.abs(b.suggested - b.share) - Math.abs(a.suggested - a.share)).slice(0, 4);
  if (most.length === 0) return null;
  return (
    <p class="why-balance">
      <strong>Another split of the batch would even them out:</strong>{" "}
      {most.map(({ rank, share, suggested }, i) => (
        <span key={rank} class="figure">
          rank {rank} {format.share(share)} → {format.share(suggested)}
          {i < most.length - 1 && ", "}
        </span>
      ))}
      {telling.length > most.length ? " …" : parts.length > most.length && ", all others a little more or less"}
    </p>
  );
}
