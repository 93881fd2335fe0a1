import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import * as format from "../lib/format";
import { plain, sentence } from "../lib/text";
import { adviceOn, adviceOnEnd } from "../state/ending";
import { isByHand } from "../state/model";
import { pausedOf } from "../state/resumes";
import { formatView } from "../state/view";
import { heardSeconds } from "./clocks";
import { usePage } from "./context";
import { Icon, type IconName } from "./Icon";
import { PathLink } from "./Trail";

/** On a phone what is shown comes first. */
const NARROW = "(max-width: 720px)";

/** One sentence on the state of things when there is something to say or to do. */
export function Banners() {
  return (
    <section aria-label="Notices">
      <ReportBanner />
      <LinkBanner />
      <RunBanner />
      <ProblemBanner />
    </section>
  );
}

function Banner({ icon, tone, title, children }: { icon: IconName; tone: string; title: string; children: ComponentChildren }) {
  return (
    <div class={`banner is-${tone}`} role="note">
      <Icon name={icon} />
      <p>
        <strong>{title}</strong> {children}
      </p>
    </div>
  );
}

function ReportBanner() {
  const page = usePage();
  const run = page.run.value;
  const isOpen = useSignal(!matchMedia(NARROW).matches);
  if (page.mode !== "report" || run === null) return null;
  const how = page.isOver.value ? `The run ${isByHand(run) ? "was stopped" : run.state === "terminated" ? "was terminated" : run.state} ${format.moment(run.ended_at)} after ${format.duration(run.elapsed_seconds)}${pausedOf(run) >= 1 ? ` of work and ${format.duration(pausedOf(run))} of pause` : ""}.` : `Written while the run was ${run.state}.`;
  return (
    <Banner icon="info" tone="info" title="Report.">
      {how}{" "}
      {!isOpen.value && (
        <button type="button" class="link" onClick={() => (isOpen.value = true)}>
          What it holds
        </button>
      )}
      <span class="banner-more" hidden={!isOpen.value}>
        Everything shown is inside this file
        {page.writtenAt !== null && `, written ${format.moment(page.writtenAt)}`}
        {"; curves are thinned with their extremes kept"}
        {run.directory !== null && (
          <>
            ; all points are in <code>{plain(run.directory)}/points</code>
          </>
        )}
        .
      </span>
    </Banner>
  );
}

function LinkBanner() {
  const page = usePage();
  const state = page.connection.value;
  if (state === "other run") {
    return (
      <Banner icon="info" tone="warn" title="Another run is served here now.">
        This page keeps what it has of the one before.{" "}
        <button type="button" class="chip" onClick={() => location.reload()}>
          Open the new run
        </button>
      </Banner>
    );
  }
  if (state !== "disconnected") return null;
  return (
    <Banner icon="disconnected" tone="warn" title="Disconnected from the controller.">
      {page.run.value === null ? "Nothing is known yet." : `What is shown is ${format.duration(heardSeconds(page))} old; the run may well go on.`} The page tries again by itself. Behind an SSH tunnel, check that it is still open.
    </Banner>
  );
}

function RunBanner() {
  const page = usePage();
  const run = page.run.value;
  if (run === null || page.connection.value === "disconnected") return null;
  const detail = run.state_detail === null ? "" : plain(run.state_detail);
  const where = run.directory === null ? null : <> The report and all data are in <code>{plain(run.directory)}</code>.</>;
  switch (run.state) {
    case "waiting":
      return (
        <Banner icon="waiting" tone="info" title="Waiting for the first rank.">
          {detail} A rank appears when its script constructs <code>trackside.Monitor</code>. Nothing after a minute? <code>trackside doctor</code> says why.
        </Banner>
      );
    case "failed":
      return (
        <Banner icon="failed" tone="critical" title="The run failed.">
          <Failure detail={detail} where={page.mode === "live" && where} />
        </Banner>
      );
    case "terminated": {
      const byHand = isByHand(run);
      return (
        <Banner icon="terminated" tone="warn" title={`The run was ${byHand ? detail : run.state}.`}>
          {!byHand && sentence(detail)} {adviceOnEnd(run.state_detail)}
          {page.mode === "live" && where}
        </Banner>
      );
    }
    case "finished":
      return page.mode === "live" ? (
        <Banner icon="finished" tone="ok" title="The run finished.">
          This page keeps everything, also when the controller has gone.{where}
        </Banner>
      ) : null;
    case "running":
      return null;
  }
}

/** Who, when and where it stood; then what to look at. */
function Failure({ detail, where }: { detail: string; where: ComponentChildren }) {
  const page = usePage();
  const culprit = page.culprit.value;
  const facts = [
    culprit?.step != null && `last step ${format.count(culprit.step)}`,
    culprit?.time != null && `at ${format.timeOfDay(culprit.time)} ${format.zone(new Date(culprit.time * 1000))}`,
  ].filter((fact) => fact !== false);
  const [first, ...others] = detail.split("; ");
  return (
    <>
      {detail !== "" && <b>{sentence([[first, ...facts].join(", "), ...others].join("; "))}</b>} {culprit !== null && plain(adviceOn(culprit))}
      {where}{" "}
      {culprit !== null && (
        <>
          <PathLink path={culprit.rank.path} text={`Show rank ${culprit.rank.rank}`} /> ·{" "}
        </>
      )}
      <a
        class="path-link"
        href={formatView({ ...page.view.value, tab: "events" })}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          page.show({ tab: "events" }, true);
        }}
      >
        What came before
      </a>
    </>
  );
}

function ProblemBanner() {
  const page = usePage();
  const since = page.run.value?.not_persisted_since ?? null;
  return (
    <>
      {since !== null && (
        <Banner icon="warn" tone="warn" title="Not persisted.">
          The disk has taken nothing since {format.moment(since)}. The page is live; the run folder is behind. Check space and mounts.
        </Banner>
      )}
      {page.problem.value !== null && (
        <Banner icon="warn" tone="warn" title="This page has a problem.">
          {plain(page.problem.value)}
        </Banner>
      )}
    </>
  );
}
