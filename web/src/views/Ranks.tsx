import { useEffect, useMemo } from "preact/hooks";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import { foundRanks, slowestOf, type Order } from "../state/standings";
import { usePage } from "./context";
import { Empty } from "./Empty";
import { Find } from "./Find";
import { HeatMap } from "./HeatMap";
import { NotWell } from "./NotWell";
import { useOrdering } from "./order";
import { PhaseKey } from "./PhaseBar";
import { allColumns } from "./rankColumns";
import { RankTable } from "./RankTable";

const BY_RANK: Order = { column: "rank", descending: false };
/** Fewer are seen at once. */
const FINDABLE = 16;

/** Every rank with everything known of it. */
export function Ranks() {
  const page = usePage();
  const ranks = page.ranks.value;
  const slowest = slowestOf(ranks)?.rank ?? null;
  const find = page.view.value.find;
  const found = useMemo(() => foundRanks(ranks, find), [ranks, find]);
  const { sort } = page.view.value;
  const { order, rows, hold } = useOrdering(found, BY_RANK, sort);
  // The address and the table's headings say the same, whichever of the two was changed.
  useEffect(() => void (order.value = sort ?? BY_RANK), [sort === null ? "" : `${sort.descending} ${sort.column}`]);
  useEffect(() => page.show({ sort: order.value.column === "rank" && !order.value.descending ? null : order.value }), [order.value]);
  if (ranks.length === 0) {
    return <Empty title="No rank yet">A rank appears here when its script constructs <code>trackside.Monitor</code>. If one should be here, <code>trackside doctor</code> says why it is silent.</Empty>;
  }
  return (
    <>
    <NotWell ranks={ranks} />
    {ranks.length > 1 && <HeatMap />}
    <section class="panel" aria-label="Ranks">
      <header class="panel-head">
        <h2>Ranks</h2>
        <span class="panel-note">{found.length < ranks.length && `${format.count(found.length)} of `}{ranks.length === 1 ? "1 rank" : `${format.count(ranks.length)} ranks`} {ranks[0]?.path === page.path.value ? "at" : "below"} {page.path.value}</span>
        {ranks.length > FINDABLE && <Find label="Find ranks" hint="rank, host or state" />}
      </header>
      {found.length === 0 && <p class="table-none">No rank fits “{plain(find)}”.</p>}
      <RankTable
        label="Ranks"
        columns={allColumns(page, ranks, slowest)}
        rows={rows}
        order={order}
        slowest={slowest}
        hold={hold}
        onPick={(rank) => page.show({ path: rank.path, tab: "overview" }, true)}
      />
      <PhaseKey ranks={ranks} />
    </section>
    </>
  );
}
