// Writes a chart as SVG. A script of its own, fetched when a chart is first saved; a report has it inside. It stands alone and
// announces itself, since a script inside a page cannot be imported.

import type { Column } from "../aligned";
import type { ChartFile } from "../chartfile";

const LEFT = 84;
const RIGHT = 28;
const TOP = 74;
const BOTTOM = 52;
const LETTER_PX = 6.8;

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function chartSvg(file: ChartFile): string {
  const { colors, width, height } = file;
  const ground = `<rect width="${width}" height="${height}" fill="${colors.ground}"/>`;
  const clip = `<clipPath id="plot"><rect x="${LEFT}" y="${TOP}" width="${width - LEFT - RIGHT}" height="${height - TOP - BOTTOM}"/></clipPath>`;
  const head = `<text x="20" y="32" font-size="18" font-weight="600" fill="${colors.text}">${escaped(file.title)}</text>`;
  const parts = [ground, clip, head, ...legend(file), ...axes(file), `<g clip-path="url(#plot)">`, ...curves(file), "</g>"];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${escaped(file.font)}" font-size="12">${parts.join("\n")}</svg>\n`;
}

function toX({ x, width }: ChartFile): (value: number) => number {
  const [from, to] = x.range;
  return (value) => round(LEFT + ((value - from) / (to - from || 1)) * (width - LEFT - RIGHT));
}

function toY({ y, height }: ChartFile): (value: number) => number {
  const scale = y.isLog ? Math.log10 : (value: number) => value;
  const [from, to] = [scale(y.range[0]), scale(y.range[1])];
  return (value) => round(height - BOTTOM - ((scale(value) - from) / (to - from || 1)) * (height - TOP - BOTTOM));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** As many as have room in a line. */
function legend({ notes, colors, width }: ChartFile): string[] {
  const out: string[] = [];
  let left = 20;
  for (const { text, color } of notes) {
    const long = 24 + text.length * LETTER_PX + 14;
    if (left + long > width - 20) {
      out.push(`<text x="${left}" y="54" fill="${colors.muted}">…</text>`);
      break;
    }
    if (color !== null) out.push(`<path d="M${left} 50h16" stroke="${color}" stroke-width="2"/>`);
    out.push(`<text x="${left + (color === null ? 0 : 22)}" y="54" fill="${colors.muted}">${escaped(text)}</text>`);
    left += long;
  }
  return out;
}

function axes(file: ChartFile): string[] {
  const { x, y, colors, width, height } = file;
  const [placeX, placeY] = [toX(file), toY(file)];
  const line = (d: string) => `<path d="${d}" stroke="${colors.grid}"/>`;
  return [
    ...y.ticks.flatMap(([at, label]) => [line(`M${LEFT} ${placeY(at)}H${width - RIGHT}`), `<text x="${LEFT - 8}" y="${placeY(at) + 4}" text-anchor="end" fill="${colors.muted}">${escaped(label)}</text>`]),
    ...x.ticks.flatMap(([at, label]) => [line(`M${placeX(at)} ${TOP}V${height - BOTTOM}`), `<text x="${placeX(at)}" y="${height - BOTTOM + 18}" text-anchor="middle" fill="${colors.muted}">${escaped(label)}</text>`]),
    `<text x="${(LEFT + width - RIGHT) / 2}" y="${height - 12}" text-anchor="middle" fill="${colors.muted}">${escaped(x.name)}</text>`,
  ];
}

type Run = [x: number, value: number, index: number][];

/** The stretches of a column that have a value at every place of its own. */
function runs(places: number[], values: Column): Run[] {
  const out: Run[] = [[]];
  places.forEach((x, i) => {
    const value = values[i];
    if (value === undefined) return;
    if (value === null) out.push([]);
    else out[out.length - 1]?.push([x, value, i]);
  });
  return out.filter((run) => run.length > 0);
}

function curves(file: ChartFile): string[] {
  const { places, band, lines, marks, colors } = file;
  const [placeX, placeY] = [toX(file), toY(file)];
  const path = (run: Run) => run.map(([x, value]) => `${placeX(x)} ${placeY(value)}`).join("L");
  const bands = band === null ? [] : runs(places, band.low).map((low) => {
    const high = low.map(([x, , i]): [number, number, number] => [x, band.high[i] ?? 0, i]).reverse();
    return `<path d="M${path(low)}L${path(high)}Z" fill="${band.color}" fill-opacity="0.2"/>`;
  });
  const drawn = lines.flatMap(({ values, color, width, alpha, isDashed }) =>
    runs(places, values).map((run) => {
      const [[x, value] = [0, 0]] = run;
      if (run.length === 1) return `<circle cx="${placeX(x)}" cy="${placeY(value)}" r="2.5" fill="${color}" fill-opacity="${alpha}"/>`;
      return `<path d="M${path(run)}" fill="none" stroke="${color}" stroke-width="${width}" stroke-opacity="${alpha}" stroke-linejoin="round"${isDashed ? ' stroke-dasharray="5 4"' : ""}/>`;
    }),
  );
  const signs = marks.map(({ x, sign }) => `<path d="M${placeX(x)} ${TOP}V${file.height - BOTTOM}" stroke="${colors.critical}" stroke-opacity="0.28"/><text x="${placeX(x)}" y="${sign === "▲" ? TOP + 12 : file.height - BOTTOM - 6}" text-anchor="middle" fill="${colors.critical}">${sign}</text>`);
  const resumed = file.resumed.map(({ x, label }) => `<path d="M${placeX(x)} ${TOP}V${file.height - BOTTOM}" stroke="${colors.muted}" stroke-dasharray="1 2"/><text x="${placeX(x) + 4}" y="${TOP + 12}" fill="${colors.muted}">${escaped(label)}</text>`);
  return [...bands, ...drawn, ...resumed, ...signs];
}

Reflect.set(globalThis, Symbol.for("trackside.chartfile"), chartSvg);
export {};
