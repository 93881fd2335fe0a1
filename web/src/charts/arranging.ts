// The layout's script, fetched once when it is first needed; a report has run it already.

import type { Arrange } from "../state/graph/scene";

const KEY = Symbol.for("trackside.arrange");

/** @throws The script could not be had: the controller has gone and nobody opened the tab before. */
export async function arranging(): Promise<Arrange> {
  if (announced() === undefined) await import("./later/arrange");
  const arrange = announced();
  if (arrange === undefined) throw new Error("the layout did not announce itself");
  return arrange;
}

function announced(): Arrange | undefined {
  const value: unknown = Reflect.get(globalThis, KEY);
  return typeof value === "function" ? (value as Arrange) : undefined;
}
