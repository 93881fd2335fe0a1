import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { useSignal, type Signal } from "@preact/signals";
import type { Column, Order } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";
import { ScrollBox } from "./ScrollBox";

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
  hold: { onPointerEnter(): void; onPointerLeave(): void };
  onPick(rank: RankEntry): void;
}

const ROW_PX = 34;
const WHOLE = 80;
const OVERSCAN = 12;

/** Ranks as rows, any column sorts. Many rows are drawn only where one looks. */
export function RankTable({ label, columns, rows, order, slowest, hold, onPick }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const isLong = rows.length > WHOLE;
  const height = box.current?.clientHeight ?? 600;
  const first = isLong ? Math.max(0, Math.floor(top.value / ROW_PX) - OVERSCAN) : 0;
  const end = isLong ? Math.min(rows.length, Math.ceil((top.value + height) / ROW_PX) + OVERSCAN) : rows.length;
  return (
    <ScrollBox box={box} class={`table-box ${isLong ? "is-long" : ""}`} onScroll={(event) => (top.value = event.currentTarget.scrollTop)} {...hold}>
      <table class="table rank-table" aria-label={label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <HeadCell key={column.key} column={column} order={order} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Spacer height={first * ROW_PX} span={columns.length} />}
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
          {end < rows.length && <Spacer height={(rows.length - end) * ROW_PX} span={columns.length} />}
        </tbody>
      </table>
    </ScrollBox>
  );
}

function Spacer({ height, span }: { height: number; span: number }) {
  return (
    <tr class="spacer" aria-hidden="true">
      <td colSpan={span} style={{ height: `${height}px` }} />
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
