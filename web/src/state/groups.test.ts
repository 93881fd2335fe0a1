import { expect, it } from "vitest";
import { grouped, PINNED } from "./groups";

const NAMES = ["lr", "optim/beta", "train/grad_norm", "train/loss", "val/acc", "val/loss"];
const order = (query: string, ...pins: string[]) => grouped(NAMES, query, new Set(pins)).map(({ name, metrics }) => `${name}: ${metrics.join(" ")}`);

it("what matters most is seen first: what is pinned, then the loss and its group", () => {
  expect(order("")).toEqual(["train: train/loss train/grad_norm", ": lr", "optim: optim/beta", "val: val/acc val/loss"]);
  expect(order("", "val/acc")[0]).toBe(`${PINNED}: val/acc`);
  expect(order("/acc|beta/")).toEqual(["optim: optim/beta", "val: val/acc"]);
  expect(grouped(["loss", "a/b", "z"], "", new Set()).map(({ name, metrics }) => [name, ...metrics])).toEqual([["", "loss", "z"], ["a", "a/b"]]);
});
