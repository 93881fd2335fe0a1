// Keys in the drawing, as in any tree: up and down in execution order, right into a module, left out of it.

import { boxes, toggle, unfoldBelow, type Folds } from "../../state/graph/fold";
import type { Outline } from "../../state/graph/outline";

export interface Move {
  /** The module that has the focus afterwards. */
  to: number;
  folds: Folds;
}

/** What a key does at a module, or null when it does nothing here. */
export function moved(key: string, at: number, outline: Outline, folds: Folds): Move | null {
  const order = boxes(outline, folds);
  const place = order.indexOf(at);
  const to = (id: number | undefined): Move | null => (id === undefined ? null : { to: id, folds });
  const inside = outline.children[at] ?? [];
  const isOpen = folds.open.has(at) && inside.length > 0;
  const parent = outline.nodes[at]?.parent ?? 0;
  switch (key) {
    case "ArrowDown":
      return to(order[place + 1]);
    case "ArrowUp":
      return to(order[place - 1]);
    case "Home":
      return to(order[0]);
    case "End":
      return to(order[order.length - 1]);
    case "ArrowRight":
      if (inside.length === 0) return null;
      return isOpen ? to(order[place + 1]) : { to: at, folds: toggle(folds, at) };
    case "ArrowLeft":
      if (isOpen) return { to: at, folds: toggle(folds, at) };
      return parent === 0 ? null : to(parent);
    case "Enter":
    case " ":
      return { to: at, folds: inside.length === 0 ? folds : toggle(folds, at) };
    case "*":
      return { to: at, folds: unfoldBelow(outline, folds, at) };
    default:
      return null;
  }
}
