// A way as an SVG path, its corners rounded.

type Point = readonly [x: number, y: number];

const RADIUS = 9;

export function polyline(points: readonly Point[]): string {
  const [first, ...others] = points;
  if (first === undefined) return "";
  const parts = [`M${text(first)}`];
  others.forEach((point, i) => {
    const next = others[i + 1];
    if (next === undefined) parts.push(`L${text(point)}`);
    else {
      const before = points[i] ?? first;
      parts.push(`L${text(towards(point, before))}Q${text(point)} ${text(towards(point, next))}`);
    }
  });
  return parts.join("");
}

/** A point on the way from one to another, half of it away at most. */
function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  const part = length === 0 ? 0 : Math.min(RADIUS, length / 2) / length;
  return [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
}

function text([x, y]: Point): string {
  return `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`;
}
