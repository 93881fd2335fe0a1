// The shared worker: the browser's one data connection, however many tabs.

import type { FromTab } from "./protocol";
import { openStream } from "./stream";
import { Switchboard, type Seat } from "./switchboard";

const board = new Switchboard(openStream);
setInterval(() => board.sweep(), 5000);

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (port === undefined) return;
  const seat: Seat = { post: (message) => port.postMessage(message) };
  port.onmessage = (message: MessageEvent<FromTab>) => board.handle(seat, message.data);
  port.postMessage({ kind: "ready" });
});
