import { expect, test } from "vitest";
import type { EpochRecord } from "../wire/types.gen";
import { ordinalOf } from "./epochs";

const at = (...numbers: number[]) => numbers.map((epoch) => ({ epoch }) as EpochRecord);

test("a script that counts from 0 is in its first epoch at 0 and done at the last", () => {
  expect(ordinalOf(0, [])).toBe(1);
  expect(ordinalOf(11, at(0, 1, 11))).toBe(12);
});

test("a script that counts from 1 is shown as it counts, and a resumed one too", () => {
  expect(ordinalOf(3, at(1, 2, 3))).toBe(3);
  expect(ordinalOf(57, at(56))).toBe(57);
});
