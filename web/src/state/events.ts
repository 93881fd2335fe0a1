// Which events are shown, and where each leads.

import type { EventRecord, Level, XAxis } from "../wire/types.gen";
import { isWithin, type View } from "./view";

const LEVELS: Level[] = ["info", "warn", "critical"];

export function severityRank(severity: string): number {
  return LEVELS.findIndex((level) => level === severity);
}

export interface EventFilter {
  /** Lowest severity shown. */
  severity: Level;
  /** A class; empty: all. */
  kind: string;
  path: string;
  /** Text in what it says or where it happened. */
  words: string;
}

export function filtered(events: EventRecord[], filter: EventFilter): EventRecord[] {
  const isSaid = saying(filter.words);
  return events.filter(
    (event) =>
      severityRank(event.severity) >= severityRank(filter.severity) &&
      (filter.kind === "" || event.kind === filter.kind) &&
      (isWithin(event.path, filter.path) || isWithin(filter.path, event.path)) &&
      isSaid(`${event.text} ${event.path} ${event.kind}`),
  );
}

/** Whether a text has the words, any case; `rank 1` is that rank and not the tenth. */
function saying(words: string): (text: string) => boolean {
  const wanted = words.trim().toLowerCase();
  const rank = /^rank ?(\d+)$/.exec(wanted);
  if (rank === null) return (text) => text.toLowerCase().includes(wanted);
  const exact = new RegExp(`rank ?${rank[1]}(?!\\d)`, "i");
  return (text) => exact.test(text);
}

/** The charts at the event's path with its moment marked, on an axis that has it. */
export function momentOf(event: EventRecord, axis: XAxis, startedAt: number): Partial<View> {
  const there = { path: event.path, tab: "overview", zoom: null } as const;
  if (axis === "step" && event.step !== null) return { ...there, x: "step", at: event.step };
  if (axis === "time") return { ...there, x: "time", at: event.time };
  return { ...there, x: "relative", at: event.time - startedAt };
}
