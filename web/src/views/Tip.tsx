import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  /** What it says, for those who do not see it. */
  label: string;
  content(): ComponentChildren;
  children: ComponentChildren;
}

const GAP_PX = 6;

/** Figures that appear while one points at or focuses what they belong to; Escape takes them away. */
export function Tip({ label, content, children }: Props) {
  const isOpen = useSignal(false);
  const owner = useRef<HTMLSpanElement>(null);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const card = box.current;
    if (card === null || owner.current === null) return;
    card.showPopover?.();
    place(card, owner.current.getBoundingClientRect());
  }, [isOpen.value]);
  return (
    <span
      ref={owner}
      class="tip-owner"
      role="img"
      tabIndex={0}
      aria-label={label}
      onPointerEnter={() => (isOpen.value = true)}
      onPointerLeave={() => (isOpen.value = false)}
      onClick={(event) => event.stopPropagation()}
      onFocus={() => (isOpen.value = true)}
      onBlur={() => (isOpen.value = false)}
      onKeyDown={(event) => {
        if (event.key === "Escape") isOpen.value = false;
      }}
    >
      {children}
      {isOpen.value && (
        <div ref={box} class="tip" popover="manual" aria-hidden="true">
          {content()}
        </div>
      )}
    </span>
  );
}

/** Below its owner where there is room, else above, and always inside the window. */
function place(card: HTMLElement, owner: DOMRect): void {
  const { offsetWidth: width, offsetHeight: height } = card;
  const isBelow = owner.bottom + GAP_PX + height <= innerHeight;
  card.style.left = `${Math.max(GAP_PX, Math.min(owner.left, innerWidth - width - GAP_PX))}px`;
  card.style.top = `${isBelow ? owner.bottom + GAP_PX : Math.max(GAP_PX, owner.top - GAP_PX - height)}px`;
}
