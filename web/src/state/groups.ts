// The charts' groups and their order.

import { filterOf, groupOf } from "../lib/text";

export interface Members {
  name: string;
  metrics: string[];
}

export const PINNED = "\u0000pinned";

/** The metric that says most: `loss`, else one with loss in its name, else the first. */
export function leadMetric(names: string[]): string | null {
  return lossOf(names) ?? names[0] ?? null;
}

function lossOf(names: string[]): string | null {
  return names.find((name) => name === "loss") ?? names.find((name) => /loss/i.test(name)) ?? null;
}

/** Pinned first, then the group of the loss, it before its others; then what has no group, then the rest in page order. */
export function grouped(names: string[], query: string, pins: ReadonlySet<string>): Members[] {
  const filter = filterOf(query);
  const lead = lossOf(names);
  const groups = new Map<string, string[]>([PINNED, ...(lead === null ? [] : [groupOf(lead)]), ""].map((name) => [name, []]));
  for (const name of lead === null ? names : [lead, ...names.filter((other) => other !== lead)]) {
    if (!filter.matches(name)) continue;
    const group = pins.has(name) ? PINNED : groupOf(name);
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [name]);
    else members.push(name);
  }
  return [...groups].filter(([, members]) => members.length > 0).map(([name, metrics]) => ({ name, metrics }));
}
