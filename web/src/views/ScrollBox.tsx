import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, type MutableRef } from "preact/hooks";

interface Props extends JSX.HTMLAttributes<HTMLDivElement> {
  children: ComponentChildren;
  box?: MutableRef<HTMLDivElement | null>;
}

/** A box that scrolls sideways and shows on which side there is more. */
export function ScrollBox({ children, box, class: name, onScroll, ...others }: Props) {
  const own = useRef<HTMLDivElement>(null);
  const ref = box ?? own;
  useScrollHint(ref);
  return (
    <div ref={ref} class={`scroll-box ${String(name ?? "")}`} onScroll={onScroll} {...others}>
      {children}
    </div>
  );
}

/** Keeps `data-more` of an element at the sides where something is out of sight: `left`, `right`, `both` or absent. */
export function useScrollHint(ref: MutableRef<HTMLElement | null>): void {
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    const look = () => {
      const isLeft = element.scrollLeft > 1;
      const isRight = element.scrollLeft + element.clientWidth < element.scrollWidth - 1;
      const more = isLeft && isRight ? "both" : isLeft ? "left" : isRight ? "right" : null;
      if (more === null) delete element.dataset["more"];
      else if (element.dataset["more"] !== more) element.dataset["more"] = more;
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    for (const child of element.children) observer.observe(child);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
}
