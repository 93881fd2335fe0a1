import { expect, it } from "vitest";
import { extent, pictureOf } from "./aligned";
import type { PointsEvent, SeriesAnswer } from "../wire/types.gen";
import { Curves, type Curve, type SeriesQuery } from "../state/curves";

/** The same numbers for the same seed. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Values by step, answered in buckets as the server does: no more entries than are asked for, extremes kept. */
class Run {
  readonly values: number[] = [];

  series({ from, to, points }: SeriesQuery): Promise<SeriesAnswer> {
    const low = Math.max(0, Math.ceil(from ?? 0));
    const high = Math.min(this.values.length - 1, Math.floor(to ?? Infinity));
    const width = 2 ** Math.max(0, Math.ceil(Math.log2((high - low + 1) / (points - 1))));
    const x: number[] = [];
    const buckets: number[][] = [];
    for (let step = low; step <= high; step++) {
      if (step === low || step % width === 0) {
        x.push(step);
        buckets.push([]);
      }
      buckets[buckets.length - 1]?.push(this.values[step] ?? NaN);
    }
    const of = (fold: (part: number[]) => number) => buckets.map(fold);
    const sum = (part: number[]) => part.reduce((total, value) => total + value, 0);
    return Promise.resolve({
      metric: "loss", path: "root", x, mean: of((part) => sum(part) / part.length), min: of((part) => Math.min(...part)), max: of((part) => Math.max(...part)),
      count: of((part) => part.length), total_points: high - low + 1, reduction: "mean", std: [], x_kind: "step", decimated: width > 1, non_finite: [],
    });
  }

  /** Steps that come now, as the stream tells them. */
  grow(fresh: number[]): PointsEvent {
    const step = fresh.map((_, i) => this.values.length + i);
    this.values.push(...fresh);
    return { metrics: { loss: { step, epoch: step.map(() => null), time: step, mean: fresh, min: fresh, max: fresh, count: step.map(() => 1), worst: [] } } };
  }
}

const settle = () => new Promise((done) => setTimeout(done, 0));

function drawn(curve: Curve, zoom: readonly [number, number] | null, last: number): readonly [number, number] | null {
  const { entries, marks } = curve.view(zoom, 0);
  const [from, to] = zoom ?? [0, last];
  return extent(pictureOf(entries, marks, "loss", { log: false, band: true, color: 0 }), from, to);
}

it.each([1, 2, 3, 4, 5, 6])("a spike of one point is drawn at every zoom, whenever it came (%i)", async (seed) => {
  const below = dice(seed);
  const run = new Run();
  const noise = (count: number) => Array.from({ length: count }, () => (below(300) === 0 ? (below(2) * 2 - 1) * (100 + below(900)) : below(100) / 100));
  run.grow(noise(1500 + below(4000)));
  const curves = new Curves(run);
  const curve = curves.get("loss", "root", "step");
  curves.use(curve);
  await settle();
  for (let turn = 0; turn < 40; turn++) {
    const last = run.values.length - 1;
    const ends = [below(last + 1), below(last + (turn % 4 === 0 ? 800 : 1))].sort((a, b) => a - b) as [number, number];
    const zoom = turn % 5 === 4 ? null : ends;
    curves.setZoom(zoom);
    await settle();
    curves.take(run.grow(noise(below(400))));
    if (below(3) === 0) curves.tick(performance.now() + turn * 10_000);
    await settle();
    const [from, to] = zoom ?? [0, Infinity];
    const shown = run.values.filter((_, step) => step >= from && step <= to);
    const found = drawn(curve, zoom, run.values.length - 1);
    if (shown.length > 0) expect([turn, zoom, found]).toEqual([turn, zoom, [Math.min(...shown), Math.max(...shown)]]);
  }
  expect(curve.tail.length).toBeLessThan(3000);
});
