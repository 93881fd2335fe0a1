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
