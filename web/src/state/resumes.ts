// Where a run was gone on with after its processes had ended: what was trained beyond that is trained again.

import type { EpochRecord, RunDocument, XAxis } from "../wire/types.gen";

export interface Resume {
  generation: number;
  /** UTC seconds, the controller's clock. */
  time: number;
  /** The first step and epoch after it; null: none yet, or none told. */
  step: number | null;
  epoch: number | null;
  /** The last step before it. */
  reached: number | null;
}

/** A place on an x axis where the run was gone on with. */
export interface Place {
  x: number;
  label: string;
}

/** Oldest first. */
export function resumesOf(told: unknown): Resume[] {
  const list: unknown[] = Array.isArray(told) ? told : [];
  return list.flatMap((item) => {
    const of = (key: string) => {
      const value: unknown = typeof item === "object" && item !== null ? Reflect.get(item, key) : null;
      return typeof value === "number" ? value : null;
    };
    const [generation, time] = [of("generation"), of("time")];
    return generation === null || time === null ? [] : [{ generation, time, step: of("step"), epoch: of("epoch"), reached: of("reached") }];
  });
}

/** How long nothing of the job was there, between its sessions, seconds. */
export function pausedOf(run: RunDocument | null): number {
  const told = run?.environment["paused_seconds"];
  return typeof told === "number" ? told : 0;
}

/** @param number Of an epoch, as the page counts. */
export function placesOf(resumes: readonly Resume[], axis: XAxis, startedAt: number, number: (epoch: number) => number): Place[] {
  return resumes.flatMap(({ time, step, epoch }) => {
    const x = axis === "step" ? step : axis === "epoch" ? epoch : axis === "time" ? time : time - startedAt;
    if (x === null) return [];
    return { x, label: `resumed${axis === "epoch" ? ` in epoch ${number(x)}` : step === null ? "" : ` at step ${step}`}` };
  });
}

/** Whether what an epoch's record tells is of processes before the present ones, and was or will be trained again. */
export function isSuperseded(record: EpochRecord, resumes: readonly Resume[]): boolean {
  return resumes.some(({ generation, epoch }) => generation > record.generation && epoch !== null && record.epoch >= epoch);
}
