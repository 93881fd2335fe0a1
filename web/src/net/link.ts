// A tab's end of the data connection: the shared worker's port, or a switchboard of its own where there is none.

import type { FromTab, ToTab } from "./protocol";
import { openStream } from "./stream";
import { Switchboard, type Seat } from "./switchboard";

export interface LinkListener {
  event(name: string, data: string): void;
  status(connected: boolean, silentMs: number): void;
  /** What came is not whole any more: load everything. */
  resync(): void;
}

const WORKER_PATIENCE_MS = 3000;
const ALIVE_MS = 10_000;
const SWEEP_MS = 5000;

export class Link {
  private send: (message: FromTab) => void = () => undefined;
  private readonly timers: ReturnType<typeof setInterval>[] = [];
  private stopLine: () => void = () => undefined;
  private started = false;

  constructor(
    private readonly base: string,
    private path: string,
    private readonly listener: LinkListener,
  ) {
    document.addEventListener("visibilitychange", this.watch);
    window.addEventListener("pagehide", this.bye);
    window.addEventListener("pageshow", this.watch);
    this.timers.push(setInterval(() => this.send({ kind: "alive" }), ALIVE_MS));
    if ("SharedWorker" in window) this.useWorker();
    else this.useOwn();
  }

  setPath(path: string): void {
    if (path === this.path) return;
    this.path = path;
    this.watch();
  }

  close(): void {
    this.bye();
    this.stopLine();
    this.timers.forEach(clearInterval);
    document.removeEventListener("visibilitychange", this.watch);
    window.removeEventListener("pagehide", this.bye);
    window.removeEventListener("pageshow", this.watch);
  }

  private readonly watch = (): void => {
    this.send({ kind: "watch", base: this.base, path: this.path, visible: document.visibilityState === "visible" });
  };

  private readonly bye = (): void => this.send({ kind: "bye" });

  private useWorker(): void {
    let worker: SharedWorker;
    try {
      worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: "trackside" });
    } catch {
      this.useOwn();
      return;
    }
    const fallBack = () => {
      if (this.started) return;
      worker.port.close();
      this.useOwn();
    };
    worker.onerror = fallBack;
    const patience = setTimeout(fallBack, WORKER_PATIENCE_MS);
    worker.port.onmessage = (message: MessageEvent<ToTab | { kind: "ready" }>) => {
      if (message.data.kind !== "ready") this.receive(message.data);
      else if (!this.started) {
        clearTimeout(patience);
        this.begin((out) => worker.port.postMessage(out));
      }
    };
    worker.port.start();
    this.stopLine = () => worker.port.close();
  }

  private useOwn(): void {
    const board = new Switchboard(openStream);
    const seat: Seat = { post: (message) => this.receive(message) };
    this.timers.push(setInterval(() => board.sweep(), SWEEP_MS));
    this.begin((message) => board.handle(seat, message));
  }

  private begin(send: (message: FromTab) => void): void {
    this.started = true;
    this.send = send;
    this.watch();
  }

  private receive(message: ToTab): void {
    if (message.kind === "event") this.listener.event(message.name, message.data);
    else if (message.kind === "status") this.listener.status(message.connected, message.silentMs);
    else this.listener.resync();
    this.send({ kind: "ack", n: message.n });
  }
}
