import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

export const ROW_PX = 34;
/** So many rows are all drawn. */
const WHOLE = 80;
/** What is drawn moves on by so many rows, and reaches so many beyond what is seen. */
const CHUNK = 8;
const OVERSCAN = 12;

export interface Window {
  isLong: boolean;
  first: number;
  end: number;
  onScroll(event: { currentTarget: HTMLElement }): void;
}

/** Which of very many rows of equal height are drawn: those where one looks. */
export function useWindow(count: number): Window {
  const chunk = useSignal(0);
  const onScroll = useMemo(
    () => (event: { currentTarget: HTMLElement }) => {
      chunk.value = Math.floor(event.currentTarget.scrollTop / ROW_PX / CHUNK);
    },
    [],
  );
  if (count <= WHOLE) return { isLong: false, first: 0, end: count, onScroll };
  const seen = Math.ceil(innerHeight / ROW_PX) + CHUNK;
  const top = Math.min(chunk.value * CHUNK, count - 1);
  return { isLong: true, first: Math.max(0, top - OVERSCAN), end: Math.min(count, top + seen + OVERSCAN), onScroll };
}
