// A drawing of the page as a file that stands alone: what style sheets say is written into it.

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor", "opacity"];
const OWN = ["role", "tabindex", "class", "style", "aria-label", "aria-level", "aria-expanded", "aria-selected", "aria-hidden", "aria-setsize", "aria-posinset", "data-id"];

/** The drawing as SVG text, on the background that it has on the page. Names stay text: the browser itself escapes them. */
export function svgFile(drawing: SVGSVGElement, background: string): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const from = [...drawing.querySelectorAll<SVGElement>("*")];
  const to = [...copy.querySelectorAll<SVGElement>("*")];
  from.forEach((element, i) => write(element, to[i]));
  for (const name of OWN) copy.removeAttribute(name);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const [x = "0", y = "0", width = "0", height = "0"] = (drawing.getAttribute("viewBox") ?? "").split(" ");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: background })) ground.setAttribute(name, value);
  copy.prepend(ground);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return new XMLSerializer().serializeToString(copy);
}

function write(element: SVGElement, copy: SVGElement | undefined): void {
  if (copy === undefined) return;
  const style = getComputedStyle(element);
  for (const name of STYLES) {
    const value = style.getPropertyValue(name);
    if (value !== "" && value !== "none" && value !== "normal") copy.setAttribute(name, value);
    else if (name === "fill") copy.setAttribute(name, value || "none");
  }
  for (const name of OWN) copy.removeAttribute(name);
}
