// Small things a person chose (theme, folded groups, pins), kept per browser when it lets us.

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`trackside.${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`trackside.${key}`);
    else localStorage.setItem(`trackside.${key}`, value);
  } catch {
    // A report opened from disk may have no storage; the choice lasts as long as the page then.
  }
}

export function recallSet(key: string): ReadonlySet<string> {
  const text = recall(key);
  if (text === null) return new Set();
  try {
    const list: unknown = JSON.parse(text);
    return new Set(Array.isArray(list) ? list.filter((item) => typeof item === "string") : []);
  } catch {
    return new Set();
  }
}

export function rememberSet(key: string, set: ReadonlySet<string>): void {
  remember(key, JSON.stringify([...set]));
}
