// The browser tab's title and icon: state and progress, also while one looks elsewhere.

import { effect } from "@preact/signals";
import { plain } from "../lib/text";
import type { Page } from "../state/page";
import { shownWord, stateWord } from "../views/Header";
import { iconPath } from "../views/Icon";
import { progressOf } from "../views/Vitals";

const SIZE = 32;
const COLORS: Record<string, string> = {
  waiting: "#8593a1",
  running: "#1fa97c",
  finished: "#3b8fd4",
  failed: "#e0522f",
  terminated: "#d08a1d",
  disconnected: "#d08a1d",
};

export function keepTabIcon(page: Page): void {
  let last = "";
  effect(() => {
    const run = page.run.value;
    const word = stateWord(page);
    const done = progressOf(run);
    const percent = done === null || word === "finished" ? "" : `${Math.floor(done * 100)}% `;
    document.title = `${percent}${word === "running" ? "" : `${shownWord(page)} · `}${plain(run?.name ?? "")}${run === null ? "" : " · "}Trackside`;
    const key = `${word} ${done === null ? "" : Math.round(done * 40)}`;
    if (key === last) return;
    last = key;
    draw(word, done);
  });
}

function draw(word: ReturnType<typeof stateWord>, done: number | null): void {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  const ctx = canvas.getContext("2d");
  const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  if (ctx === null || link === null) return;
  const color = COLORS[word] ?? "#8593a1";
  ctx.strokeStyle = color;
  ctx.globalAlpha = 0.35;
  ctx.lineWidth = 4;
  ctx.beginPath();
  ctx.arc(16, 16, 13, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.beginPath();
  ctx.arc(16, 16, 13, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * (done ?? 1));
  ctx.stroke();
  ctx.fillStyle = color;
  ctx.translate(7, 7);
  ctx.scale(18 / 16, 18 / 16);
  ctx.fill(new Path2D(iconPath(word)), "evenodd");
  link.href = canvas.toDataURL();
}
