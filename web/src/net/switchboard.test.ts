import { expect, it } from "vitest";
import type { ToTab } from "./protocol";
import type { StreamListener } from "./stream";
import { Switchboard } from "./switchboard";

class FakeStream {
  connected = true;
  closed = false;
  constructor(readonly path: string, readonly listener: StreamListener, readonly heardAt: number) {}
  close() {
    this.closed = true;
  }
}

function world() {
  const streams: FakeStream[] = [];
  const time = { now: 0 };
  const board = new Switchboard((_base, path, listener) => {
    const stream = new FakeStream(path, listener, time.now);
    streams.push(stream);
    return stream;
  }, () => time.now);
  const tab = (path: string, visible = true) => {
    const got: ToTab[] = [];
    const seat = { post: (message: ToTab) => void got.push(message) };
    const watch = (next: string, isVisible: boolean) => board.handle(seat, { kind: "watch", base: "/", path: next, visible: isVisible });
    watch(path, visible);
    const ack = () => board.handle(seat, { kind: "ack", n: Math.max(0, ...got.map((message) => message.n)) });
    const names = () => got.filter((message) => message.kind !== "status").map((message) => (message.kind === "event" ? message.name : message.kind));
    return { got, seat, watch, ack, names };
  };
  const open = () => streams.filter((stream) => !stream.closed);
  const hello = (stream: FakeStream | undefined, resumed = false) => stream?.listener.event("hello", `{"run":"r","resumed":${resumed}}`);
  return { board, tab, open, hello, time };
}

it("test_d58 many tabs of one path share one stream, and a later one is greeted as fresh", () => {
  const { tab, open, hello } = world();
  const first = tab("root");
  hello(open()[0]);
  const second = tab("root");
  expect(open()).toHaveLength(1);
  open()[0]?.listener.event("points", "{}");
  expect([first.names(), second.names()]).toEqual([["hello", "points"], ["hello", "points"]]);
});

it("a hidden tab gets the run only, and loads afresh when it is seen again", () => {
  const { tab, open, hello } = world();
  const seen = tab("root");
  const hidden = tab("root", false);
  hello(open()[0]);
  hidden.ack();
  for (let i = 0; i < 3; i++) open()[0]?.listener.event("points", "{}");
  open()[0]?.listener.event("run", "{}");
  open()[0]?.listener.event("run", "{}");
  expect(hidden.names()).toEqual(["run"]);
  hidden.watch("root", true);
  expect(hidden.names()).toEqual(["run", "resync"]);
  open()[0]?.listener.event("points", "{}");
  expect(hidden.names()).toEqual(["run", "resync", "points"]);
  expect(seen.names()).toHaveLength(7);
});

it("a stream is open only for paths in view; with none, one keeps the titles", () => {
  const { tab, open } = world();
  const first = tab("root");
  const second = tab("root/rank1");
  expect(open().map((stream) => stream.path).sort()).toEqual(["root", "root/rank1"]);
  second.watch("root/rank1", false);
  expect(open().map((stream) => stream.path)).toEqual(["root"]);
  first.watch("root", false);
  expect(open()).toHaveLength(1);
});

it("a tab that does not keep up is brought back by a fresh state, not by a queue", () => {
  const { tab, open, hello } = world();
  const slow = tab("root");
  hello(open()[0]);
  for (let i = 0; i < 1000; i++) open()[0]?.listener.event("points", "{}");
  expect(slow.got.length).toBeLessThan(320);
  slow.ack();
  expect(slow.names().at(-1)).toBe("resync");
});

it("a tab that vanished counts as hidden, and is awake again when it speaks", () => {
  const { board, tab, open, hello, time } = world();
  const lost = tab("root");
  hello(open()[0]);
  time.now = 40_000;
  board.sweep();
  open()[0]?.listener.event("points", "{}");
  expect(lost.names()).toEqual(["hello"]);
  board.handle(lost.seat, { kind: "alive" });
  expect(lost.names()).toEqual(["hello", "resync"]);
});

it("a closed tab closes its stream", () => {
  const { board, tab, open } = world();
  const only = tab("root");
  board.handle(only.seat, { kind: "bye" });
  expect(open()).toHaveLength(0);
});
