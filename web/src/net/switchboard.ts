// Shares streams among tabs: one stream a path, and only for paths that somebody looks at.
//
// A hidden tab gets the run document only, one at a time (its title shows state and progress); a tab that does not keep up,
// or comes back into view, is told to load afresh. So nothing queues without bound and nothing is told twice.

import type { FromTab, ToTab } from "./protocol";
import type { OpenStream, Stream } from "./stream";

export interface Seat {
  post(message: ToTab): void;
}

interface Sitter {
  seat: Seat;
  base: string;
  path: string;
  visible: boolean;
  sent: number;
  acked: number;
  /** It missed something since its last whole state. */
  behind: boolean;
  heardAt: number;
  /** It fell silent without saying that it is hidden. */
  asleep: boolean;
  since: number;
}

interface Line {
  stream: Stream;
  path: string;
  base: string;
  hello: string | null;
}

const UNREAD_LIMIT = 300;
const GONE_MS = 30_000;

export class Switchboard {
  private readonly sitters = new Map<Seat, Sitter>();
  private readonly lines = new Map<string, Line>();
  private turn = 0;

  constructor(
    private readonly open: OpenStream,
    private readonly now: () => number = () => performance.now(),
  ) {}

  handle(seat: Seat, message: FromTab): void {
    const sitter = this.sitters.get(seat);
    if (message.kind === "watch") this.watch(seat, sitter, message);
    else if (sitter === undefined) return;
    else if (message.kind === "bye") this.sitters.delete(seat);
    else if (message.kind === "ack") this.acknowledge(sitter, message.n);
    else sitter.heardAt = this.now();
    if (sitter?.asleep === true) this.wake(sitter);
    this.plug();
  }

  /** Called every few seconds: a tab that vanished without a word counts as hidden. */
  sweep(): void {
    for (const sitter of this.sitters.values()) {
      if (sitter.visible && this.now() - sitter.heardAt > GONE_MS) {
        sitter.visible = false;
        sitter.asleep = true;
        sitter.behind = true;
      }
    }
    this.plug();
    for (const sitter of this.sitters.values()) this.tellStatus(sitter);
  }

  private watch(seat: Seat, before: Sitter | undefined, wish: Extract<FromTab, { kind: "watch" }>): void {
    const isNew = before === undefined || before.path !== wish.path || before.base !== wish.base;
    const isWoken = before !== undefined && wish.visible && (before.behind || !before.visible);
    const sitter: Sitter = {
      seat,
      base: wish.base,
      path: wish.path,
      visible: wish.visible,
      sent: before?.sent ?? 0,
      acked: before?.acked ?? 0,
      behind: !isNew && (before?.behind ?? false),
      heardAt: this.now(),
      asleep: false,
      since: ++this.turn,
    };
    this.sitters.set(seat, sitter);
    const line = this.lines.get(keyOf(sitter));
    if (line === undefined) return;
    if (isNew && line.hello !== null) this.post(sitter, "hello", line.hello);
    else if (isWoken) this.resync(sitter);
    this.tellStatus(sitter);
  }

  private wake(sitter: Sitter): void {
    sitter.asleep = false;
    sitter.visible = true;
    if (this.lines.has(keyOf(sitter))) this.resync(sitter);
  }

  private acknowledge(sitter: Sitter, n: number): void {
    sitter.acked = Math.max(sitter.acked, n);
    sitter.heardAt = this.now();
    if (sitter.behind && sitter.visible && sitter.acked >= sitter.sent) this.resync(sitter);
  }

  private resync(sitter: Sitter): void {
    sitter.behind = false;
    sitter.seat.post({ kind: "resync", n: ++sitter.sent });
  }

  /** Opens and closes streams so that there is one for each path in view, or one for the titles of hidden tabs. */
  private plug(): void {
    const wanted = new Map<string, Sitter>();
    for (const sitter of this.sitters.values()) if (sitter.visible) wanted.set(keyOf(sitter), sitter);
    if (wanted.size === 0) {
      const latest = [...this.sitters.values()].sort((a, b) => b.since - a.since)[0];
      if (latest !== undefined) wanted.set(keyOf(latest), latest);
    }
    for (const [key, line] of this.lines) {
      if (wanted.has(key)) continue;
      line.stream.close();
      this.lines.delete(key);
    }
    for (const [key, sitter] of wanted) if (!this.lines.has(key)) this.connect(key, sitter);
  }

  private connect(key: string, { base, path }: Sitter): void {
    const listener = {
      event: (name: string, data: string) => this.spread(key, name, data),
      status: () => {
        for (const sitter of this.sitters.values()) if (keyOf(sitter) === key) this.tellStatus(sitter);
      },
    };
    this.lines.set(key, { stream: this.open(base, path, listener), path, base, hello: null });
  }

  private spread(key: string, name: string, data: string): void {
    const line = this.lines.get(key);
    if (line === undefined) return;
    const isWhole = name === "hello" && !/"resumed":\s*true/.test(data);
    // A tab that joins later has no past to resume: its hello says so.
    if (name === "hello") line.hello = data.replace(/"resumed":\s*true/, '"resumed":false');
    for (const sitter of this.sitters.values()) {
      if (sitter.base !== line.base) continue;
      const isOwn = sitter.path === line.path;
      if (isOwn && isWhole && sitter.visible) sitter.behind = false;
      const isForAll = name === "run" || name === "complete";
      if (isOwn || (isForAll && !this.lines.has(keyOf(sitter)))) this.pass(sitter, name, data);
    }
  }

  private pass(sitter: Sitter, name: string, data: string): void {
    if (sitter.visible && sitter.sent - sitter.acked <= UNREAD_LIMIT && !sitter.behind) {
      this.post(sitter, name, data);
      return;
    }
    sitter.behind = true;
    const isTitle = name === "run" || name === "complete";
    if (isTitle && (sitter.acked >= sitter.sent || name === "complete")) this.post(sitter, name, data);
  }

  private post(sitter: Sitter, name: string, data: string): void {
    sitter.seat.post({ kind: "event", n: ++sitter.sent, name, data });
  }

  private tellStatus(sitter: Sitter): void {
    const stream = this.lines.get(keyOf(sitter))?.stream;
    if (stream === undefined || !sitter.visible) return;
    const silentMs = Math.max(0, this.now() - stream.heardAt);
    sitter.seat.post({ kind: "status", n: ++sitter.sent, connected: stream.connected, silentMs });
  }
}

function keyOf(sitter: { base: string; path: string }): string {
  return `${sitter.base} ${sitter.path}`;
}
