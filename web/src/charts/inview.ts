import { signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { atOnce } from "./atonce";

const MARGIN = "300px 0px";
const watched = new WeakMap<Element, (isIn: boolean) => void>();
let observer: IntersectionObserver | null = null;

function shared(): IntersectionObserver {
  observer ??= new IntersectionObserver(
    (entries) => entries.forEach((entry) => watched.get(entry.target)?.(entry.isIntersecting)),
    { rootMargin: MARGIN },
  );
  return observer;
}

/** Whether an element is in view, or nearly: what is not needs no drawing. */
export function useInView(ref: RefObject<Element>): boolean {
  const [isIn, setIn] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    watched.set(element, setIn);
    shared().observe(element);
    return () => {
      watched.delete(element);
      shared().unobserve(element);
    };
  }, []);
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
