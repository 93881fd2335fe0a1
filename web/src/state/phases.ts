// Where a step's time goes, in the order of a step. Waiting for peers stands last and apart: it is nobody's own time.

const WORK = ["data", "transfer", "forward", "compute", "step", "backward", "optimizer"];
const REST = ["rest", "between steps"];
const WAITING = ["collective", "waiting"];
const KNOWN = [...WORK, ...REST, ...WAITING];
const OWN_HUES = 3;

export interface Part {
  name: string;
  seconds: number;
  /** Of the whole step, 0 to 1. */
  share: number;
}

export function isWaiting(name: string): boolean {
  return WAITING.includes(name);
}

/** Every phase that any of them has; the user's own stand between the work and the rest. */
export function phaseNames(all: readonly Record<string, number>[]): string[] {
  const names = new Set(all.flatMap((phases) => Object.keys(phases)));
  const own = [...names].filter((name) => !KNOWN.includes(name)).sort();
  const known = (list: string[]) => list.filter((name) => names.has(name));
  return [...known(WORK), ...own, ...known(REST), ...known(WAITING)];
}

/** The phases that took any time, in the order of `names`. */
export function partsOf(phases: Record<string, number>, names: readonly string[]): Part[] {
  const taken = names.map((name) => ({ name, seconds: phases[name] ?? 0 })).filter(({ seconds }) => seconds > 0);
  const whole = taken.reduce((sum, { seconds }) => sum + seconds, 0);
  return taken.map((part) => ({ ...part, share: part.seconds / whole }));
}

/** The token of a phase's colour: known ones have their own, others take the free places in order. */
export function phaseToken(name: string, names: readonly string[]): string {
  if (isWaiting(name)) return "collective";
  if (REST.includes(name)) return "rest";
  if (name === "compute") return "step";
  if (WORK.includes(name)) return name;
  const own = names.filter((other) => !KNOWN.includes(other)).indexOf(name);
  return `own-${(Math.max(0, own) % OWN_HUES) + 1}`;
}

/** What a phase is called where there is room to say what it means. */
export function phaseWord(name: string): string {
  return name === "collective" ? "collective (waiting)" : name;
}
