import type { ComponentChildren } from "preact";
import type { Signal } from "@preact/signals";
import type { Column, Order } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";
import type { Hold } from "./order";
import { ScrollBox } from "./ScrollBox";
import { ROW_PX, useWindow } from "./window";

export interface RankColumn {
  key: Column | "phases";
  title: string;
  /** What the figure is, for pointing and for screen readers. */
  about: string;
  cell(rank: RankEntry): ComponentChildren;
  isText?: boolean;
}

interface Props {
  label: string;
  columns: RankColumn[];
  rows: RankEntry[];
  order: Signal<Order>;
  slowest: number | null;
  hold: Hold;
  onPick(rank: RankEntry): void;
}

/** Ranks as rows, any column sorts. Many rows are drawn only where one looks. */
export function RankTable({ label, columns, rows, order, slowest, hold, onPick }: Props) {
  const { isLong, first, end, onScroll } = useWindow(rows.length);
  return (
    <ScrollBox class={`table-box ${isLong ? "is-long" : ""}`} onScroll={onScroll} {...hold}>
      <table class="table rank-table" aria-label={label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <HeadCell key={column.key} column={column} order={order} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Spacer rows={first} span={columns.length} />}
          {rows.slice(first, end).map((rank, i) => (
            <tr
              key={rank.rank}
              aria-rowindex={first + i + 2}
              class={`is-${rank.state} ${rank.verdict !== null || rank.rank === slowest ? "is-slowest" : ""}`}
              onClick={() => onPick(rank)}
            >
              {columns.map((column) => (
                <td key={column.key} class={column.isText === true ? "" : "figure"}>
                  {column.cell(rank)}
                </td>
              ))}
            </tr>
          ))}
          {end < rows.length && <Spacer rows={rows.length - end} span={columns.length} />}
        </tbody>
      </table>
    </ScrollBox>
  );
}

/** The room of rows that are not drawn. */
export function Spacer({ rows, span }: { rows: number; span: number }) {
  return (
    <tr class="spacer" aria-hidden="true">
      <td colSpan={span} style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  );
}

function HeadCell({ column, order }: { column: RankColumn; order: Signal<Order> }) {
  const { key } = column;
  if (key === "phases") return <th title={column.about}>{column.title}</th>;
  const isSorted = order.value.column === key;
  const direction = isSorted ? (order.value.descending ? "descending" : "ascending") : "none";
  return (
    <th aria-sort={direction} class={column.isText === true ? "" : "figure"} title={column.about}>
      <button type="button" onClick={() => (order.value = { column: key, descending: isSorted ? !order.value.descending : key !== "rank" })}>
        {column.title}
        <span class="sort" aria-hidden="true">
          {isSorted ? (order.value.descending ? "▾" : "▴") : ""}
        </span>
      </button>
    </th>
  );
}
