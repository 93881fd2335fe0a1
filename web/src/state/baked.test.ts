import { expect, it } from "vitest";
import type { BakedSeries } from "../wire/types.gen";
import { bakedSource } from "./baked";
import { Curves, NoSuchSeries, NotKept } from "./curves";

const series = (path: string): BakedSeries => ({ metric: "loss", path, step: [0, 10], epoch: [null, null], time: [1, 2], mean: [2, 1], min: [2, 1], max: [2, 1], count: [1, 1], total_points: 20, reduction: "mean", non_finite: [] });

it("what was left out is told from what never was", async () => {
  const source = bakedSource([series("root")], 0);
  const ask = (metric: string, path: string) => source.series({ metric, path, x: "step", from: null, to: null, points: 1000 });
  expect((await ask("loss", "root")).x).toEqual([0, 10]);
  await expect(ask("loss", "root/h/rank0")).rejects.toBeInstanceOf(NotKept);
  await expect(ask("acc", "root/h/rank0")).rejects.toBeInstanceOf(NoSuchSeries);
  await expect(ask("acc", "root")).rejects.toBeInstanceOf(NoSuchSeries);

  const curves = new Curves(source);
  const [kept, gone] = [curves.get("loss", "root", "step"), curves.get("loss", "root/h/rank0", "step")];
  curves.use(kept);
  curves.use(gone);
  await new Promise((done) => setTimeout(done));
  expect([kept.state, kept.base?.totalPoints, gone.state, gone.stale]).toEqual(["ready", 20, "unkept", false]);
});
