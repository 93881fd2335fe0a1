import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/top.css";
import "./styles/charts.css";
import "./styles/panels.css";
import "./styles/ranks.css";
import "./styles/why.css";
import "./styles/parts.css";
import "./styles/model.css";
import "./styles/narrow.css";
import "./styles/print.css";
import { atOnce } from "../charts/atonce";
import { parseView } from "../state/view";
import type { Page } from "../state/page";
import { App } from "../views/App";
import { PageProvider } from "../views/context";
import { livePage } from "./live";
import { reportPage } from "./report";
import { keepTabIcon } from "./tabicon";

const TICK_MS = 250;

function start(): void {
  const root = document.getElementById("app");
  if (root === null) return;
  const page = reportPage() ?? livePage(new URL(".", location.href.split("#")[0]).href);
  effect(() => {
    const theme = page.theme.value;
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", () => (page.scheme.value += 1));
  }
  addEventListener("beforeprint", () => onPaper(page, true));
  addEventListener("afterprint", () => onPaper(page, false));
  followUrl(page);
  effect(() => page.curves.setZoom(page.view.value.zoom));
  tick(page);
  keepTabIcon(page);
  render(
    <PageProvider value={page}>
      <App />
    </PageProvider>,
    root,
  );
}

/** What is drawn is drawn for paper before a printer takes it: style sheets follow the medium by themselves, but later. */
function onPaper(page: Page, isPaper: boolean): void {
  document.documentElement.toggleAttribute("data-paper", isPaper);
  atOnce(() => (page.scheme.value += 1));
}

/** Back and forward, and a fragment typed by hand, show what they say. */
function followUrl(page: Page): void {
  const read = () => {
    page.view.value = parseView(location.hash);
  };
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
}

/** Clocks on the page tick while somebody sees them. */
function tick(page: Page): void {
  let beats = 0;
  setInterval(() => {
    beats += 1;
    if (document.hidden) return;
    page.now.value = performance.now();
    if (beats % 4 === 0) page.curves.tick(performance.now());
  }, TICK_MS);
}

start();
