// Metadata as rows of a foldable tree; only unfolded parts become rows.

export interface TreeRow {
  /** Place in the tree, as JSON pointers write it. */
  pointer: string;
  key: string;
  depth: number;
  /** A leaf's value as text; null for a branch. */
  text: string | null;
  /** How many a branch holds. */
  size: number;
  isOpen: boolean;
}

const TEXT_LIMIT = 4000;
const ROWS_LIMIT = 5000;

function entriesOf(value: unknown): [string, unknown][] | null {
  if (Array.isArray(value)) return value.map((item, i) => [String(i), item]);
  if (typeof value === "object" && value !== null) return Object.entries(value);
  return null;
}

function textOf(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > TEXT_LIMIT ? `${text.slice(0, TEXT_LIMIT)} … (${text.length} characters)` : text;
}

/** Rows in view. While one searches, branches with a match are open; else those that were toggled are not as usual. */
export function treeRows(root: unknown, query: string, toggled: ReadonlySet<string>): { rows: TreeRow[]; isCut: boolean } {
  const wanted = query.trim().toLowerCase();
  const rows: TreeRow[] = [];
  let isCut = false;
  const visit = (value: unknown, key: string, pointer: string, depth: number): void => {
    if (rows.length >= ROWS_LIMIT) {
      isCut = true;
      return;
    }
    const children = entriesOf(value);
    if (wanted !== "" && !matches(value, key, wanted)) return;
    const isUsuallyOpen = depth < 1 || (children !== null && children.length <= 12 && depth < 2);
    const isOpen = wanted !== "" ? true : isUsuallyOpen !== toggled.has(pointer);
    rows.push({ pointer, key, depth, text: children === null ? textOf(value) : null, size: children?.length ?? 0, isOpen });
    if (children === null || !isOpen) return;
    const isNamed = wanted !== "" && key.toLowerCase().includes(wanted);
    for (const [name, child] of children) {
      if (isNamed || wanted === "" || matches(child, name, wanted)) visit(child, name, `${pointer}/${name}`, depth + 1);
    }
  };
  const top = entriesOf(root);
  if (top === null) return { rows: [{ pointer: "", key: "", depth: 0, text: textOf(root), size: 0, isOpen: false }], isCut };
  for (const [name, child] of top) visit(child, name, `/${name}`, 0);
  return { rows, isCut };
}

function matches(value: unknown, key: string, wanted: string): boolean {
  if (key.toLowerCase().includes(wanted)) return true;
  const children = entriesOf(value);
  if (children === null) return textOf(value).toLowerCase().includes(wanted);
  return children.some(([name, child]) => matches(child, name, wanted));
}
