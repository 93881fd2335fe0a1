import type { ComponentChildren } from "preact";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import { heardSeconds } from "./clocks";
import { usePage } from "./context";
import { Icon, type IconName } from "./Icon";

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
  if (page.mode !== "report" || run === null) return null;
  const isOver = page.isOver.value;
  return (
    <Banner icon="info" tone="info" title="Report.">
      {isOver ? `The run ${run.state} ${format.moment(run.ended_at)}.` : `Written while the run was ${run.state}.`} Everything shown is inside this file
      {page.writtenAt !== null && `, written ${format.moment(page.writtenAt)}`}
      {"; curves are thinned with their extremes kept"}
      {run.directory !== null && (
        <>
          ; all points are in <code>{plain(run.directory)}/points</code>
        </>
      )}
      .
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
          {detail !== "" ? `${detail}. ` : ""}Events tell what came before.{page.mode === "live" && where}
        </Banner>
      );
    case "terminated":
      return (
        <Banner icon="terminated" tone="warn" title="The run was terminated.">
          {detail}
          {page.mode === "live" && where}
        </Banner>
      );
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
