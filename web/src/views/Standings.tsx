import * as format from "../lib/format";
import { ownStep, slowestOf } from "../state/standings";
import { usePage } from "./context";
import { useOrdering } from "./order";
import { PhaseKey } from "./PhaseBar";
import { standingColumns } from "./rankColumns";
import { RankTable } from "./RankTable";

/** Who is slow: every rank below the path, slowest first and marked. */
export function Standings() {
  const page = usePage();
  const ranks = page.ranks.value;
  const slowest = slowestOf(ranks);
  const mark = slowest?.rank ?? null;
  const { order, rows, hold } = useOrdering(ranks, { column: "own", descending: true });
  return (
    <section class="standings panel" aria-label="Standings">
      <header class="panel-head">
        <h2>Standings</h2>
        <span class="panel-note">{slowest === null ? (ranks.length > 1 ? "all ranks alike" : "") : `rank ${slowest.rank} is slowest: ${format.duration(ownStep(slowest))} a step`}</span>
      </header>
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
    </section>
  );
}
