import { useSignal, type Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { ordered, type Order } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";

const REST_MS = 3000;

export interface Ordering {
  order: Signal<Order>;
  rows: RankEntry[];
  /** Put on the table: while it is pointed at or focused, rows keep their places. */
  hold: { onPointerEnter(): void; onPointerLeave(): void };
}

/** Ranks in a chosen order that is renewed now and then, so that rows do not dance. */
export function useOrdering(ranks: RankEntry[], first: Order): Ordering {
  const order = useSignal<Order>(first);
  const isHeld = useRef(false);
  const last = useRef<{ at: number; order: Order; places: Map<number, number> }>({ at: -Infinity, order: first, places: new Map() });
  const rows = useMemo(() => {
    const kept = last.current;
    const isSame = kept.order === order.value && kept.places.size === ranks.length;
    const isResting = isHeld.current || performance.now() - kept.at < REST_MS;
    if (isSame && isResting) {
      return [...ranks].sort((a, b) => (kept.places.get(a.rank) ?? Infinity) - (kept.places.get(b.rank) ?? Infinity));
    }
    const sorted = ordered(ranks, order.value);
    const places = new Map(sorted.map((rank, i) => [rank.rank, i]));
    last.current = { at: performance.now(), order: order.value, places };
    return sorted;
  }, [ranks, order.value]);
  const hold = { onPointerEnter: () => void (isHeld.current = true), onPointerLeave: () => void (isHeld.current = false) };
  return { order, rows, hold };
}
