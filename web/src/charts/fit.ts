// Text cut to a width, as the browser will draw it.

const ELLIPSIS = "…";
const KEPT = 4000;
const cuts = new Map<string, string>();
let context: CanvasRenderingContext2D | null = null;

/** The text, or as much of its beginning as fits with an ellipsis. `font` as in CSS. */
export function fitted(text: string, width: number, font: string): string {
  const key = `${font} ${width} ${text}`;
  const known = cuts.get(key);
  if (known !== undefined) return known;
  const cut = cutTo(text, width, (part) => measured(part, font));
  if (cuts.size >= KEPT) cuts.clear();
  cuts.set(key, cut);
  return cut;
}

/** @param widthOf Of a text, in the same unit as `width`. */
export function cutTo(text: string, width: number, widthOf: (text: string) => number): string {
  const letters = [...text.slice(0, 400)];
  if (letters.length === text.length && widthOf(text) <= width) return text;
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (widthOf(letters.slice(0, middle).join("") + ELLIPSIS) <= width) low = middle;
    else high = middle - 1;
  }
  return letters.slice(0, low).join("") + ELLIPSIS;
}

function measured(text: string, font: string): number {
  context ??= document.createElement("canvas").getContext("2d");
  if (context === null) return text.length * 7;
  context.font = font;
  return context.measureText(text).width;
}
