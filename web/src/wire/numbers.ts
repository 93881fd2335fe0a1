import type { JsonNumber } from "./types.gen";

/** A metric's value as JavaScript has it: NaN and infinities are themselves, unknown is null. */
export function real(value: JsonNumber | undefined): number | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return value;
  if (value === "NaN") return NaN;
  if (value === "Infinity") return Infinity;
  return value === "-Infinity" ? -Infinity : null;
}

export function reals(values: readonly JsonNumber[]): (number | null)[] {
  return values.map(real);
}
