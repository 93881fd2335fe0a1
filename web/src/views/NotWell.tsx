import { plain } from "../lib/text";
import type { RankEntry } from "../wire/types.gen";
import { Icon } from "./Icon";
import { Name } from "./Name";
import { PathLink } from "./Trail";

const SHOWN = 12;
const MANY = 16;
const WORST = ["failed", "lost", "late"];

/** Among very many ranks: those that are dead, silent or blamed, by name. */
export function NotWell({ ranks }: { ranks: RankEntry[] }) {
  if (ranks.length <= MANY) return null;
  const bad = ranks.filter((rank) => WORST.includes(rank.state) || rank.verdict !== null).sort((a, b) => rankOf(a) - rankOf(b) || a.rank - b.rank);
  if (bad.length === 0) return null;
  return (
    <ul class="not-well" aria-label="Ranks that are not well">
      {bad.slice(0, SHOWN).map((rank) => (
        <li key={rank.rank} class={`state is-${rank.state}`}>
          <Icon name={WORST.includes(rank.state) ? rank.state : "warn"} />
          <PathLink path={rank.path} text={`rank${rank.rank}`} />
          {rank.host !== null && <Name class="rank-host" text={rank.host} />}
          <span>{words(rank)}</span>
        </li>
      ))}
      {bad.length > SHOWN && <li class="panel-note">and {bad.length - SHOWN} more</li>}
    </ul>
  );
}

function rankOf(rank: RankEntry): number {
  const at = WORST.indexOf(rank.state);
  return at < 0 ? WORST.length : at;
}

function words(rank: RankEntry): string {
  if (!WORST.includes(rank.state)) return plain(rank.verdict ?? "");
  const detail = rank.signal ?? (rank.exit_code !== null && rank.exit_code !== 0 ? `exit ${rank.exit_code}` : null);
  return detail === null ? rank.state : `${rank.state} · ${plain(detail)}`;
}
