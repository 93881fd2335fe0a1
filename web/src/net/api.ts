// The server's documents, fetched and checked. Every URL is relative to the page.

import { fields, filled } from "../wire/shape";

/** A guard: takes what came, gives what it is, or throws. */
export type Checked<T> = (value: unknown) => T;

export class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const PATIENCE_MS = 20_000;

async function get(base: string, path: string, query: Record<string, string>): Promise<Response> {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const answer = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  if (!answer.ok) throw new HttpError(answer.status, await wordsOf(answer, path));
  return answer;
}

/** What the server says went wrong; a proxy between says it in its own way. */
async function wordsOf(answer: Response, path: string): Promise<string> {
  try {
    return filled<{ message: string }>(fields(await answer.json(), "answer")["error"], "error", { message: "string" }, {}).message;
  } catch {
    return `${path}: ${answer.status} ${answer.statusText}`;
  }
}

/** Fetches JSON and checks its shape. */
export async function getDocument<T>(
  base: string,
  path: string,
  check: Checked<T>,
  query: Record<string, string> = {},
): Promise<T> {
  return check(await (await get(base, path, query)).json());
}

export async function getText(base: string, path: string): Promise<string> {
  return (await get(base, path, {})).text();
}
