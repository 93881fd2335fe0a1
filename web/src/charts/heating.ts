// The heat map's script, fetched apart from the page's own; a report has run it already.

import type * as heat from "../state/heat";
import type * as map from "./heatmap";

export type HeatKit = Pick<typeof heat, "heatOf" | "withOdd" | "hostBands"> & Pick<typeof map, "heatLayout" | "paintHeat" | "placeOf" | "cellAt" | "cellBy">;

const KEY = Symbol.for("trackside.heat");

/** What makes and draws heat maps, where it has come. */
export function heatKit(): HeatKit | null {
  return (Reflect.get(globalThis, KEY) as HeatKit | undefined) ?? null;
}

/** @throws The script could not be had: the controller has gone before it was fetched. */
export async function heating(): Promise<void> {
  if (heatKit() === null) await import("./later/heat");
}
