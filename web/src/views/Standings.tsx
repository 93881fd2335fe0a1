import { useSignal } from "@preact/signals";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import { ownStep, slowestOf } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";
import { usePage } from "./context";
import { Icon } from "./Icon";
import { useOrdering } from "./order";
import { PhaseKey } from "./PhaseBar";
import { standingColumns } from "./rankColumns";
import { RankTable } from "./RankTable";

/** On a phone the charts come first; the one sentence stays. */
const NARROW = "(max-width: 720px)";

/** Who is slow: every rank below the path, slowest first and marked. */
export function Standings() {
  const page = usePage();
  const ranks = page.ranks.value;
  const slowest = slowestOf(ranks);
  const mark = slowest?.rank ?? null;
  const isOpen = useSignal(!matchMedia(NARROW).matches);
  const { order, rows, hold } = useOrdering(ranks, { column: "own", descending: true });
  return (
    <section class="standings panel" aria-label="Standings">
      <header class="panel-head">
        <h2>
          <button type="button" class="fold" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
            <Icon name="chevron" class={isOpen.value ? "is-open" : ""} />
            Standings
          </button>
        </h2>
        <span class="panel-note">{summary(ranks, slowest)}</span>
      </header>
      {isOpen.value && (
        <>
          <RankTable
            label="Standings"
            columns={standingColumns(page, ranks, mark)}
            rows={rows}
            order={order}
            slowest={mark}
            hold={hold}
            onPick={(rank) => page.descend(rank.path)}
          />
          <PhaseKey ranks={ranks} />
        </>
      )}
    </section>
  );
}

function summary(ranks: RankEntry[], slowest: RankEntry | null): string {
  if (slowest !== null) {
    const isSpread = slowest.host !== null && ranks.some((rank) => rank.host !== slowest.host);
    return `rank ${slowest.rank}${isSpread ? ` on ${plain(slowest.host ?? "")}` : ""} is ${ranks.some((rank) => (ownStep(rank) ?? 0) > (ownStep(slowest) ?? 0)) ? "behind" : "slowest"}: ${format.fine(ownStep(slowest))} a step`;
  }
  return ranks.filter((rank) => ownStep(rank) !== null).length > 1 ? "all ranks alike" : "";
}
