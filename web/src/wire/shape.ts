// Checks at the edge: an object, a list, fields of a kind; what is left out gets the struct's default.

/** An answer or message that is not what it should be. */
export class ShapeError extends Error {}

export type Fields = Record<string, unknown>;
export type Kinds = Record<string, "string" | "number" | "list" | "object">;

export function fields(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ShapeError(`${what} is no object`);
  return value as Fields;
}

export function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new ShapeError(`${what} is no list`);
  return value;
}

function need(from: Fields, what: string, kinds: Kinds): void {
  for (const [name, kind] of Object.entries(kinds)) {
    const value = from[name];
    const is = Array.isArray(value) ? "list" : typeof value;
    if (is !== kind || value === null) throw new ShapeError(`${what}.${name} is no ${kind}`);
  }
}

/** The object with its needed fields checked and the others filled in. */
export function filled<T>(value: unknown, what: string, kinds: Kinds, defaults: Partial<T>): T {
  const from = fields(value, what);
  need(from, what, kinds);
  return { ...defaults, ...from } as T;
}

/** Columns that belong together have one length. */
export function sameLengths(from: Fields, what: string, names: string[]): void {
  const lengths = new Set(names.map((name) => (from[name] as unknown[]).length));
  if (lengths.size > 1) throw new ShapeError(`${what}: columns of different lengths`);
}
