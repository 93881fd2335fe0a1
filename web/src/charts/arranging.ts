// The layout's script, fetched once when it is first needed; a report has run it already.

import type { Arrange } from "../state/graph/scene";

const KEY = Symbol.for("trackside.arrange");

/** @throws The script could not be had: the controller has gone and nobody opened the tab before. */
export async function arranging(): Promise<Arrange> {
  if (announced(KEY) === undefined) await import("./later/arrange");
  const arrange = announced(KEY);
  if (arrange === undefined) throw new Error("the layout did not announce itself");
  return arrange as Arrange;
}

/** What a script that was fetched later has put there for the page. */
export function announced(key: symbol): unknown {
  const value: unknown = Reflect.get(globalThis, key);
  return typeof value === "function" ? value : undefined;
}
