import { KNOWN_PHASES, phaseNames } from "../state/standings";
import * as format from "../lib/format";
import { plain } from "../lib/text";
import type { RankEntry } from "../wire/types.gen";

/** The token of a phase's colour: known ones have their own, others take the free places in order. */
export function phaseClass(name: string, names: string[]): string {
  if (KNOWN_PHASES.includes(name)) return `phase-${name.replaceAll(" ", "-")}`;
  const own = names.filter((other) => !KNOWN_PHASES.includes(other)).indexOf(name);
  return `phase-own-${(own % 3) + 1}`;
}

/** A rank's step as stacked phases; `longest` is the full width, seconds. */
export function PhaseBar({ rank, names, longest }: { rank: RankEntry; names: string[]; longest: number }) {
  const shown = names.filter((name) => (rank.phases[name] ?? 0) > 0);
  const words = shown.map((name) => `${plain(name)} ${format.duration(rank.phases[name])}`).join(", ");
  if (shown.length === 0) {
    const own = rank.own_step_seconds ?? rank.step_seconds ?? 0;
    return (
      <span class="phases" title="phases are not known">
        <i class="phase-step" style={{ width: `${share(own, longest)}%` }} />
      </span>
    );
  }
  return (
    <span class="phases" role="img" aria-label={words} title={words}>
      {shown.map((name) => (
        <i key={name} class={phaseClass(name, names)} style={{ width: `${share(rank.phases[name] ?? 0, longest)}%` }} />
      ))}
    </span>
  );
}

function share(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, (part / whole) * 100) : 0;
}

/** The longest step of all, seconds: the width of a full bar. */
export function longestStep(ranks: RankEntry[]): number {
  return Math.max(
    0,
    ...ranks.map((rank) => {
      const sum = Object.values(rank.phases).reduce((total, value) => total + value, 0);
      return sum > 0 ? sum : (rank.own_step_seconds ?? rank.step_seconds ?? 0);
    }),
  );
}

export function PhaseKey({ ranks }: { ranks: RankEntry[] }) {
  const names = phaseNames(ranks);
  if (names.length === 0) return null;
  return (
    <ul class="phase-key" aria-label="Phases">
      {names.map((name) => (
        <li key={name}>
          <i class={`swatch-box ${phaseClass(name, names)}`} />
          <bdi>{plain(name)}</bdi>
        </li>
      ))}
    </ul>
  );
}
