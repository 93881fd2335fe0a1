import * as format from "../lib/format";
import { plain } from "../lib/text";
import { takenAlong } from "../state/ending";
import type { Page } from "../state/page";
import { phaseNames } from "../state/phases";
import { isOtherShare, keyOf, ownStep } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";
import { ageSeconds } from "./clocks";
import { usePage } from "./context";
import { Icon } from "./Icon";
import { Name } from "./Name";
import { PathLink } from "./Trail";
import { longestStep, PhaseBar } from "./PhaseBar";
import type { RankColumn } from "./RankTable";

/** The columns of Standings. */
export function standingColumns(page: Page, ranks: RankEntry[], slowest: number | null, isBrief = true): RankColumn[] {
  const names = phaseNames(ranks.map((rank) => rank.phases));
  const longest = longestStep(ranks);
  const columns: RankColumn[] = [
    { key: "rank", title: "rank", about: "Global rank and its host", isText: true, cell: (rank) => <RankName rank={rank} isSlowest={rank.rank === slowest} isBrief={isBrief} /> },
    { key: "state", title: "state", about: "Of its process", isText: true, cell: (rank) => <RankState rank={rank} page={page} /> },
    { key: "phases", title: "phases", about: "Where a step's time goes; bars share one scale", isText: true, cell: (rank) => <PhaseBar rank={rank} names={names} longest={longest} /> },
    { key: "own", title: "own step", about: "Mean time of a step without waiting for peers", cell: (rank) => <OwnStep rank={rank} /> },
    { key: "share", title: "share", about: "Share of the global batch", cell: (rank) => <Share rank={rank} isBrief={isBrief} /> },
    { key: "throughput", title: "samples/s", about: "Of own working time", cell: (rank) => format.compact(rank.throughput) },
    { key: "age", title: "age", about: "Since the last sign of life", cell: (rank) => <Age rank={rank} /> },
  ];
  const shown = page.isOver.value ? columns.filter(({ key }) => key !== "age" && isTold(ranks, key)) : columns;
  if (!ranks.some((rank) => rank.generation > 0)) return shown;
  return [...shown, { key: "generation", title: "gen", about: "Restart generation", cell: (rank) => rank.generation }];
}

/** All columns, for the tab of its own. */
export function allColumns(page: Page, ranks: RankEntry[], slowest: number | null): RankColumn[] {
  const base = standingColumns(page, ranks, slowest, false).filter((column) => column.key !== "generation");
  const columns: RankColumn[] = [
    ...base,
    { key: "epoch", title: "epoch", about: "Epoch it is in", cell: (rank) => format.count(rank.epoch === null ? null : rank.epoch + page.epochOffset.value) },
    { key: "step", title: "step", about: "Latest step", cell: (rank) => format.count(rank.step) },
    { key: "gpu", title: "gpu", about: "Mean utilisation of its device", cell: (rank) => format.percent(rank.gpu?.util) },
    { key: "memory", title: "memory", about: "Of its device, else of its processes", cell: (rank) => memory(rank) },
    { key: "cpu", title: "cpu", about: "Of the host's usable CPUs", cell: (rank) => format.percent(rank.cpu) },
    { key: "offset", title: "clock", about: "Against the controller's", cell: (rank) => offset(rank.clock_offset_seconds) },
    { key: "generation", title: "gen", about: "Restart generation", cell: (rank) => rank.generation },
  ];
  return columns.filter(({ key }) => isTold(ranks, key));
}

/** A column of which nobody has anything says nothing. */
function isTold(ranks: RankEntry[], key: RankColumn["key"]): boolean {
  return key === "phases" || key === "state" || ranks.some((rank) => keyOf(rank, key) !== null);
}

/** Ticks on its own: the table around it is drawn anew only when something came. */
function Age({ rank }: { rank: RankEntry }) {
  return <>{format.age(ageSeconds(usePage(), rank))}</>;
}

function memory(rank: RankEntry): string {
  return rank.gpu?.memory_used != null ? format.bytesOf(rank.gpu.memory_used, rank.gpu.memory_total) : format.bytes(rank.memory);
}

function offset(seconds: number | null): string {
  if (seconds === null) return format.UNKNOWN;
  const size = format.duration(Math.abs(seconds));
  return size === "0ms" ? size : `${seconds < 0 ? "−" : "+"}${size}`;
}

function RankName({ rank, isSlowest, isBrief }: { rank: RankEntry; isSlowest: boolean; isBrief: boolean }) {
  return (
    <span class="rank-name">
      <PathLink path={rank.path} text={`rank${rank.rank}`} />
      {rank.host !== null && !(isBrief && (isSlowest || rank.verdict !== null)) && <Name class="rank-host" text={rank.host} />}
      <Mark rank={rank} isSlowest={isSlowest} isBrief={isBrief} />
      {!rank.monitored && (
        <span class="tag" title="Only its process is known">
          no monitor
        </span>
      )}
    </span>
  );
}

/** What is wrong in a word. Where there is little room it stands in the host's place, which the panel's heading says. */
function Mark({ rank, isSlowest, isBrief }: { rank: RankEntry; isSlowest: boolean; isBrief: boolean }) {
  if (rank.verdict === null && !isSlowest) return null;
  const word = isSlowest && (isBrief || rank.verdict === null) ? "slowest" : plain(rank.verdict ?? "");
  const about = [rank.verdict === null ? "Slowest by more than a tenth of the median" : plain(rank.verdict), rank.host === null ? "" : ` on ${plain(rank.host)}`].join("");
  return (
    <span class={isBrief ? "slow-mark" : "tag is-warn"} title={about}>
      ▲ {word}
    </span>
  );
}

/** With the share that would equalise the ranks' times, where another one is worth it. */
function Share({ rank, isBrief }: { rank: RankEntry; isBrief: boolean }) {
  const share = format.share(rank.batch_share);
  if (rank.suggested_share === null || !isOtherShare(rank.batch_share, rank.suggested_share)) return <>{share}</>;
  const suggested = format.share(rank.suggested_share);
  const isLess = rank.batch_share !== null && rank.suggested_share < rank.batch_share;
  return (
    <span title={`${suggested} would equalise the ranks' times`}>
      {share} <span class="suggested">{isBrief ? (isLess ? "↘" : "↗") : `→ ${suggested}`}</span>
    </span>
  );
}

function OwnStep({ rank }: { rank: RankEntry }) {
  const isWhole = rank.own_step_seconds === null && rank.step_seconds !== null;
  return <span title={isWhole ? "with waiting: what is its own cannot be told" : undefined}>{isWhole ? "≤ " : ""}{format.fine(ownStep(rank))}</span>;
}

function RankState({ rank, page }: { rank: RankEntry; page: Page }) {
  const culprit = page.culprit.value;
  const detail = rank.signal ?? (rank.exit_code !== null && rank.exit_code !== 0 ? `exit ${rank.exit_code}` : null);
  const phase = rank.state === "alive" || rank.state === "late" || rank.state === "lost" ? rank.phase : null;
  const along = takenAlong(rank, page.run.value, culprit);
  const isOld = page.connection.value === "disconnected" && !page.isOver.value;
  const words = [rank.state, detail ?? phase, isOld ? "when last heard" : null].filter((word) => word !== null).join(" · ");
  return (
    <span class={`state is-${isOld && rank.state === "alive" ? "unheard" : rank.state} ${along !== null ? "is-along" : ""}`} title={plain(along === null ? words : `${words}: ${along}`)}>
      <Icon name={rank.state} />
      <span>{along === null ? rank.state : "asked to end"}</span>
      {detail !== null && <small>{plain(detail)}</small>}
      {culprit?.rank.rank === rank.rank && <span class="tag is-critical" title="The first to fail: the job ended with it">first</span>}
    </span>
  );
}
