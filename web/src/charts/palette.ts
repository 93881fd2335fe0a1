// Colours of the charts come from the page's tokens, so that both themes and print have their own.

export interface Palette {
  text: string;
  muted: string;
  grid: string;
  critical: string;
  marker: string;
  font: string;
  lines: string[];
}

const LINES = 8;
let media: MediaQueryList[] | null = null;
let cached: { key: string; palette: Palette } | null = null;

/** Reads the tokens in force; cheap to call, the theme is the key. */
export function palette(): Palette {
  const root = document.documentElement;
  media ??= ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
  const key = `${root.dataset["theme"] ?? "system"} ${media.map(({ matches }) => matches).join()} ${root.hasAttribute("data-paper")}`;
  if (cached?.key === key) return cached.palette;
  const style = getComputedStyle(root);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const read: Palette = {
    text: token("--text"),
    muted: token("--text-2"),
    grid: token("--grid"),
    critical: token("--critical"),
    marker: token("--accent"),
    font: `11px ${token("--font")}`,
    lines: Array.from({ length: LINES }, (_, i) => token(`--line-${i + 1}`)),
  };
  cached = { key, palette: read };
  return read;
}

/** A line's colour by its place; places go round. */
export function lineColor(index: number): string {
  const { lines } = palette();
  return lines[index % lines.length] ?? "";
}
