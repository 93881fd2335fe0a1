// Between a tab and the one data connection of the browser, which lives in a shared worker where there is one.

export type FromTab =
  | { kind: "watch"; base: string; path: string; visible: boolean }
  | { kind: "ack"; n: number }
  | { kind: "alive" }
  | { kind: "bye" };

export type ToTab =
  /** One event of the stream; `data` is JSON text. */
  | { kind: "event"; n: number; name: string; data: string }
  /** Whether the stream of this tab's path is up, and how long it has been silent, ms. */
  | { kind: "status"; n: number; connected: boolean; silentMs: number }
  /** The tab missed something: it must load the whole state. */
  | { kind: "resync"; n: number };

export const EVENTS = ["hello", "run", "ranks", "points", "epoch", "event", "resources", "complete"] as const;
