import { expect, test } from "vitest";
import type { EpochRecord, RankEntry } from "../wire/types.gen";
import { offsetOf } from "./epochs";

const at = (...numbers: number[]) => numbers.map((epoch) => ({ epoch }) as EpochRecord);
const ranks = (...numbers: number[]) => numbers.map((epoch) => ({ epoch }) as RankEntry);

test("a script that counts from 0 is in its first epoch at 0 and done at the last", () => {
  expect(offsetOf([], ranks(0, 0), null)).toBe(1);
  expect(offsetOf(at(0, 1, 11), ranks(12), 12)).toBe(1);
});

test("a script that counts from 1 is shown as it counts, and a resumed one too", () => {
  expect(offsetOf(at(1, 2, 3), ranks(4), 4)).toBe(0);
  expect(offsetOf(at(56), ranks(57), null)).toBe(0);
  expect(offsetOf([], [], 10)).toBe(0);
});

test("a run that was begun in the middle counts from 0 where the last epoch of the plan never comes", () => {
  expect(offsetOf(at(5, 6), ranks(7), 10)).toBe(1);
  expect(offsetOf(at(9, 10), ranks(10), 10)).toBe(0);
});
