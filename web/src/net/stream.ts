// One server-sent event stream of one path, brought back whenever it breaks.

import { EVENTS } from "./protocol";

export interface StreamListener {
  event(name: string, data: string): void;
  status(connected: boolean): void;
}

export interface Stream {
  close(): void;
  /** When the last sign of life came, ms of `performance.now()`. */
  readonly heardAt: number;
  readonly connected: boolean;
}

export type OpenStream = (base: string, path: string, listener: StreamListener) => Stream;

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
const SILENT_MS = 15_000;
const PROBE_MS = 5000;

class EventStream implements Stream {
  heardAt = performance.now();
  connected = false;
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly watch: ReturnType<typeof setInterval>;
  private waitMs = FIRST_WAIT_MS;
  private closed = false;
  private probing = false;

  constructor(
    private readonly base: string,
    private readonly path: string,
    private readonly listener: StreamListener,
  ) {
    this.watch = setInterval(() => void this.probe(), PROBE_MS);
    this.open();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.watch);
    this.source?.close();
  }

  private open(): void {
    if (this.closed) return;
    const url = new URL("api/v1/stream", this.base);
    url.searchParams.set("path", this.path);
    const source = new EventSource(url);
    this.source = source;
    source.onopen = () => this.heard();
    source.onerror = () => this.broken(source);
    for (const name of EVENTS) {
      source.addEventListener(name, (message: MessageEvent<string>) => {
        this.heard();
        this.listener.event(name, message.data);
      });
    }
  }

  private heard(): void {
    this.heardAt = performance.now();
    this.waitMs = FIRST_WAIT_MS;
    this.setConnected(true);
  }

  private setConnected(connected: boolean): void {
    if (this.connected === connected) return;
    this.connected = connected;
    this.listener.status(connected);
  }

  /** The browser tries again by itself (and resumes) unless it gave up; then a fresh stream is opened. */
  private broken(source: EventSource): void {
    if (this.closed || source !== this.source) return;
    this.setConnected(false);
    if (source.readyState !== EventSource.CLOSED) return;
    this.reopen();
  }

  private reopen(): void {
    this.source?.close();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), this.waitMs);
    this.waitMs = Math.min(LONGEST_WAIT_MS, this.waitMs * 2);
  }

  /** A tunnel may die without a word: after a long silence the server is asked whether it is there. */
  private async probe(): Promise<void> {
    if (!this.connected || this.probing || performance.now() - this.heardAt < SILENT_MS) return;
    this.probing = true;
    try {
      const answer = await fetch(new URL("healthz", this.base), { signal: AbortSignal.timeout(PROBE_MS), cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      this.heardAt = performance.now();
    } catch {
      if (!this.closed) {
        this.setConnected(false);
        this.reopen();
      }
    } finally {
      this.probing = false;
    }
  }
}

export const openStream: OpenStream = (base, path, listener) => new EventStream(base, path, listener);
