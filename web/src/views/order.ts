import { useSignal, type Signal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { ordered, type Order } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";

const REST_MS = 3000;

/** Put on the table: while it is pointed at or has the focus, rows keep their places. */
export interface Hold {
  onPointerEnter(): void;
  onPointerLeave(): void;
  onFocusIn(event: FocusEvent): void;
  onFocusOut(): void;
}

export interface Ordering {
  order: Signal<Order>;
  rows: RankEntry[];
  hold: Hold;
}

/** Ranks in a chosen order that is renewed now and then, so that rows do not dance. */
export function useOrdering(ranks: RankEntry[], first: Order, kept: Order | null = null): Ordering {
  const order = useSignal<Order>(kept ?? first);
  const held = useRef({ pointed: false, focused: false });
  const last = useRef<{ at: number; order: Order; places: Map<number, number> }>({ at: -Infinity, order: first, places: new Map() });
  const rows = useMemo(() => {
    const { at, order: by, places: old } = last.current;
    const isSame = by === order.value && old.size === ranks.length && ranks.every((rank) => old.has(rank.rank));
    const isResting = held.current.pointed || held.current.focused || performance.now() - at < REST_MS;
    if (isSame && isResting) {
      return [...ranks].sort((a, b) => (old.get(a.rank) ?? Infinity) - (old.get(b.rank) ?? Infinity));
    }
    const sorted = ordered(ranks, order.value);
    const places = new Map(sorted.map((rank, i) => [rank.rank, i]));
    last.current = { at: performance.now(), order: order.value, places };
    return sorted;
  }, [ranks, order.value]);
  const hold = {
    onPointerEnter: () => void (held.current.pointed = true),
    onPointerLeave: () => void (held.current.pointed = false),
    // A heading that was clicked keeps the focus and holds nothing.
    onFocusIn: (event: FocusEvent) => void (held.current.focused = event.target instanceof Element && event.target.closest("tbody") !== null),
    onFocusOut: () => void (held.current.focused = false),
  };
  return { order, rows, hold };
}
