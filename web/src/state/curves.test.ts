import { expect, it } from "vitest";
import type { PointsEvent } from "../wire/types.gen";
import { Curves } from "./curves";

const points = (step: number[]): PointsEvent => ({
  metrics: { loss: { step, epoch: step.map(() => null), time: step, mean: step, min: step, max: step, count: step.map(() => 1), worst: [] } },
});

it("what a stream begins with is drawn before anything was loaded, and only that", () => {
  const curves = new Curves({ series: () => new Promise(() => undefined) });
  curves.greet();
  curves.take(points([1, 2, 3]));
  curves.take(points([4]));
  const seen = (path: string) => {
    const curve = curves.get("loss", path, "step");
    curves.use(curve);
    return curve.view(null, 0).entries.x;
  };
  expect([seen("root"), seen("root/h/rank0")]).toEqual([[1, 2, 3], []]);
  curves.take(points([4]));
  expect(seen("root")).toEqual([1, 2, 3, 4]);
});

it("what does not stand any more leaves with everything that was added to it", async () => {
  let last = 99;
  const steps = (count: number) => Array.from({ length: count }, (_, i) => i);
  const curves = new Curves({
    series: ({ metric, path }) => {
      const x = steps(last + 1);
      return Promise.resolve({ metric, path, x, mean: x, min: x, max: x, count: x.map(() => 1), total_points: x.length, reduction: "mean", std: [], x_kind: "step", decimated: false, non_finite: [] });
    },
  });
  const curve = curves.get("loss", "root", "step");
  curves.use(curve);
  const tell = (step: number[]) => curves.take(points(step));
  await settled();
  tell([100, 101]);
  expect(curve.view(null, 0).entries.x.at(-1)).toBe(101);
  last = 59; // resumed at step 60, which nobody has told yet
  curves.forget();
  await settled();
  expect(curve.view(null, 0).entries.x.at(-1)).toBe(59);
  tell([60]);
  expect(curve.view(null, 0).entries.x.at(-1)).toBe(60);
});

const settled = () => new Promise((done) => setTimeout(done, 5));
