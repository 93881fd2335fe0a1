import * as format from "../lib/format";
import { plain } from "../lib/text";
import { isWaiting, partsOf, phaseNames, phaseToken, phaseWord, type Part } from "../state/phases";
import { ownStep } from "../state/standings";
import type { RankEntry } from "../wire/types.gen";
import { Tip } from "./Tip";

/** A rank's step as stacked phases; `longest` is the full width, seconds. */
export function PhaseBar({ rank, names, longest }: { rank: RankEntry; names: string[]; longest: number }) {
  const parts = partsOf(rank.phases, names);
  if (parts.length === 0) {
    const own = ownStep(rank);
    if (own === null) return <span class="phases-none">{format.UNKNOWN}</span>;
    return (
      <span class="phases" title="phases are not known">
        <i class="phase-step" style={{ width: `${share(own, longest)}%` }} />
      </span>
    );
  }
  return (
    <Tip label={`Phases of rank ${rank.rank}: ${spoken(parts)}`} content={() => <PhaseFigures title={`rank ${rank.rank}`} parts={parts} names={names} />}>
      <Stack parts={parts} names={names} longest={longest} />
    </Tip>
  );
}

/** Phases side by side; waiting is hollow. */
export function Stack({ parts, names, longest }: { parts: Part[]; names: string[]; longest: number }) {
  return (
    <span class="phases" aria-hidden="true">
      {parts.map(({ name, seconds }) => (
        <i key={name} class={`phase-${phaseToken(name, names)}`} style={{ width: `${share(seconds, longest)}%` }} />
      ))}
    </span>
  );
}

export function spoken(parts: Part[]): string {
  return parts.map(({ name, seconds }) => `${plain(phaseWord(name))} ${format.fine(seconds)}`).join(", ");
}

/** A step's phases in figures: seconds and share, with the sum of what is the rank's own. */
export function PhaseFigures({ title, parts, names }: { title: string; parts: Part[]; names: string[] }) {
  const whole = parts.reduce((sum, { seconds }) => sum + seconds, 0);
  const own = parts.reduce((sum, { name, seconds }) => (isWaiting(name) ? sum : sum + seconds), 0);
  return (
    <table class="tip-table">
      <caption>{title}: mean of a step, recent</caption>
      <tbody>
        {parts.map(({ name, seconds, share: part }) => (
          <tr key={name}>
            <th>
              <i class={`swatch-box phase-${phaseToken(name, names)}`} />
              <bdi>{plain(phaseWord(name))}</bdi>
            </th>
            <td class="figure">{format.fine(seconds)}</td>
            <td class="figure">{format.percent(part)}</td>
          </tr>
        ))}
        <tr class="tip-sum">
          <th>own time</th>
          <td class="figure">{format.fine(own)}</td>
          <td class="figure">{format.percent(own / whole)}</td>
        </tr>
      </tbody>
    </table>
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
      return sum > 0 ? sum : (ownStep(rank) ?? 0);
    }),
  );
}

export function PhaseKey({ ranks }: { ranks: RankEntry[] }) {
  const names = phaseNames(ranks.map((rank) => rank.phases));
  if (names.length === 0) return null;
  return (
    <ul class="phase-key" aria-label="Phases">
      {names.map((name) => (
        <li key={name}>
          <i class={`swatch-box phase-${phaseToken(name, names)}`} />
          <bdi>{plain(phaseWord(name))}</bdi>
        </li>
      ))}
    </ul>
  );
}
