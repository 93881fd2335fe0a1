import { signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { atOnce } from "./atonce";

const MARGIN = "300px 0px";
const watched = new WeakMap<Element, (isIn: boolean) => void>();
let observer: IntersectionObserver | null = null;

function shared(): IntersectionObserver {
  observer ??= new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => queue(target, isIntersecting)), { rootMargin: MARGIN });
  return observer;
}

/** So long after it was scrolled the page stands still, ms. */
const STILL_MS = 120;
let scrolledAt = -Infinity;
addEventListener("scroll", () => (scrolledAt = performance.now()), { passive: true });
/** What came into view or left it and was not told so yet: while one scrolls, one of each a frame. */
const turns = new Map<Element, boolean>();

function queue(target: Element, isIn: boolean): void {
  if (turns.size === 0) requestAnimationFrame(takeTurns);
  turns.set(target, isIn);
}

function takeTurns(now: number): void {
  const isStill = now - scrolledAt > STILL_MS;
  const done = new Set<boolean>();
  for (const [target, isIn] of turns) {
    if (done.has(isIn) && !isStill) continue;
    done.add(isIn);
    turns.delete(target);
    watched.get(target)?.(isIn);
  }
  if (turns.size > 0) requestAnimationFrame(takeTurns);
}

/** Whether an element is in view, or nearly: what is not needs no drawing. `isWatched` false: it is known not to be. */
export function useInView(ref: RefObject<Element>, isWatched = true): boolean {
  const [isIn, setIn] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (element === null || !isWatched) return undefined;
    watched.set(element, setIn);
    shared().observe(element);
    return () => {
      watched.delete(element);
      turns.delete(element);
      shared().unobserve(element);
      setIn(false);
    };
  }, [isWatched]);
  return isIn;
}

const paper = matchMedia("print");
const printing = signal(paper.matches);
const look = () => atOnce(() => (printing.value = paper.matches));
paper.addEventListener("change", look);
addEventListener("beforeprint", () => atOnce(() => (printing.value = true)));
addEventListener("afterprint", look);

/** The same where nothing is drawn anew for it. */
export function isPrinted(): boolean {
  return printing.peek();
}

/** True while the page is being printed: everything is drawn then. */
export function usePrinting(): boolean {
  return printing.value;
}
