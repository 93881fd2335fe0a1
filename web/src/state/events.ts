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
  /** A class, or null for all. */
  kind: string | null;
  path: string;
  /** Text in what it says or where it happened. */
  text: string;
}

export function filtered(events: EventRecord[], filter: EventFilter): EventRecord[] {
  const text = filter.text.trim().toLowerCase();
  return events.filter(
    (event) =>
      severityRank(event.severity) >= severityRank(filter.severity) &&
      (filter.kind === null || event.kind === filter.kind) &&
      (isWithin(event.path, filter.path) || isWithin(filter.path, event.path)) &&
      (text === "" || `${event.text} ${event.path} ${event.kind}`.toLowerCase().includes(text)),
  );
}

/** The charts at the event's path with its moment marked, on an axis that has it. */
export function momentOf(event: EventRecord, axis: XAxis, startedAt: number): Partial<View> {
  const there = { path: event.path, tab: "overview", zoom: null } as const;
  if (axis === "step" && event.step !== null) return { ...there, x: "step", at: event.step };
  if (axis === "time") return { ...there, x: "time", at: event.time };
  return { ...there, x: "relative", at: event.time - startedAt };
}
