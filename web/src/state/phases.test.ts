import { expect, it } from "vitest";
import { isWaiting, partsOf, phaseNames, phaseToken } from "./phases";

it("phases stand in the order of a step, the user's own before the rest, waiting last", () => {
  const names = phaseNames([{ collective: 1, rest: 1, augment: 1 }, { optimizer: 1, data: 1 }, { transfer: 1, forward: 1, backward: 1 }]);
  expect(names).toEqual(["data", "transfer", "forward", "backward", "optimizer", "augment", "rest", "collective"]);
});

it("parts are shares of the step; what took nothing is left out", () => {
  expect(partsOf({ data: 1, forward: 3, rest: 0 }, ["data", "forward", "rest"])).toEqual([
    { name: "data", seconds: 1, share: 0.25 },
    { name: "forward", seconds: 3, share: 0.75 },
  ]);
  expect(partsOf({}, ["data"])).toEqual([]);
});

it("every phase has a colour, also those of older runs and of users", () => {
  const names = ["data", "b", "c", "d", "e", "waiting"];
  expect(names.map((name) => phaseToken(name, names))).toEqual(["data", "own-1", "own-2", "own-3", "own-1", "collective"]);
  expect(["between steps", "compute", "collective"].map((name) => phaseToken(name, []))).toEqual(["rest", "step", "collective"]);
  expect(isWaiting("waiting")).toBe(true);
});
