// Names come from users' jobs and are hostile until shown as text.

// Controls that reorder or hide text: bidi overrides, isolates and marks, C0/C1, separators, tags.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;

/** The text with every control that could reorder or hide it made visible. */
export function plain(text: string): string {
  return text.replace(HIDDEN, "\ufffd");
}

/** Harmless as `plain`, with a capital first and a full stop last. */
export function sentence(text: string): string {
  const words = plain(text.trim());
  if (words === "") return "";
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?…]$/.test(words) ? "" : "."}`;
}

/** As `plain`, but line breaks and tabs stay. */
export function plainLines(text: string): string {
  return text.replace(HIDDEN, (hidden) => (hidden === "\n" || hidden === "\t" ? hidden : "\ufffd"));
}

/** The part of a metric's name before its last `/`; empty without one. */
export function groupOf(name: string): string {
  const cut = name.lastIndexOf("/");
  return cut > 0 ? name.slice(0, cut) : "";
}

/** The part of a metric's name after its group. */
export function leafOf(name: string): string {
  const cut = name.lastIndexOf("/");
  return cut > 0 && cut < name.length - 1 ? name.slice(cut + 1) : name;
}

export interface Filter {
  matches(text: string): boolean;
  /** What is wrong with the expression, or null. */
  problem: string | null;
}

/** Text matches anywhere, any case; `/…/` is a regular expression. */
export function filterOf(query: string): Filter {
  const wanted = query.trim();
  if (wanted === "") return { matches: () => true, problem: null };
  if (wanted.length > 2 && wanted.startsWith("/") && wanted.endsWith("/")) {
    try {
      const expression = new RegExp(wanted.slice(1, -1), "iu");
      return { matches: (text) => expression.test(text), problem: null };
    } catch {
      return { matches: () => true, problem: "not a regular expression" };
    }
  }
  const lower = wanted.toLowerCase();
  return { matches: (text) => text.toLowerCase().includes(lower), problem: null };
}

/** The name stands in full above its legend. */
const LABEL_LIMIT = 16;

/** A curve's name in a legend, with how the ranks' values became one: `loss (mean)`. */
export function curveLabel(name: string, reduction: string): string {
  const leaf = plain(leafOf(name));
  return `${leaf.length > LABEL_LIMIT ? `${leaf.slice(0, LABEL_LIMIT - 1)}…` : leaf} (${reduction})`;
}
