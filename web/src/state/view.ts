// What one sees, and its spelling in the URL's fragment, so that a link shows another person the same.

import { COLUMNS, type Order } from "./standings";
import type { Level, XAxis } from "../wire/types.gen";

export const TABS = ["overview", "ranks", "resources", "model", "epochs", "config", "events"] as const;
export type Tab = (typeof TABS)[number];
export const AXES: readonly XAxis[] = ["step", "epoch", "time", "relative"];

export interface View {
  path: string;
  tab: Tab;
  x: XAxis;
  zoom: readonly [number, number] | null;
  filter: string;
  /** 0 to 0.99. */
  smooth: number;
  band: boolean;
  /** A moment on the x axis that is marked in every chart. */
  at: number | null;
  /** Metrics drawn on a logarithmic scale. */
  log: ReadonlySet<string>;
  /** Metrics over which the ranks are laid. */
  ranks: ReadonlySet<string>;
  /** The metric whose chart is enlarged; empty: none. */
  chart: string;
  /** Lowest severity, class and words of the events shown; empty: any. */
  severity: Level;
  kind: string;
  words: string;
  /** Ranks and hosts that are shown in tables; empty: all. */
  find: string;
  /** What the table of ranks is sorted by; null: by rank. */
  sort: Order | null;
  /** The module that is looked at in the model, by its qualified name; empty: none. */
  module: string;
  /** What the model is coloured by; null: what is known best. */
  tint: Tint | null;
}

export const TINTS = ["time", "parameters", "memory"] as const;
export type Tint = (typeof TINTS)[number];

export const HOME: View = {
  path: "root",
  tab: "overview",
  x: "step",
  zoom: null,
  filter: "",
  smooth: 0,
  band: true,
  at: null,
  log: new Set(),
  ranks: new Set(),
  chart: "",
  severity: "info",
  kind: "",
  words: "",
  find: "",
  sort: null,
  module: "",
  tint: null,
};

const PATH_SEGMENTS = 3;
const TEXT_LIMIT = 500;
const NAMES_LIMIT = 100;
const SEVERITIES: readonly Level[] = ["info", "warn", "critical"];

export function parseView(hash: string): View {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const tab = TABS.find((name) => name === fields.get("tab"));
  const x = AXES.find((name) => name === fields.get("x"));
  return {
    path: parsePath(fields.get("path")),
    tab: tab ?? HOME.tab,
    x: x ?? HOME.x,
    zoom: parseZoom(fields.get("zoom")),
    filter: text(fields.get("filter")),
    smooth: Math.min(0.99, Math.max(0, number(fields.get("smooth")) ?? 0)),
    band: fields.get("band") !== "0",
    at: number(fields.get("at")),
    log: new Set(fields.getAll("log").slice(0, NAMES_LIMIT)),
    ranks: new Set(fields.getAll("ranks").slice(0, NAMES_LIMIT)),
    chart: fields.get("chart") ?? "",
    severity: SEVERITIES.find((level) => level === fields.get("severity")) ?? HOME.severity,
    kind: text(fields.get("class")),
    words: text(fields.get("words")),
    find: text(fields.get("find")),
    sort: parseSort(fields.get("sort")),
    module: text(fields.get("module")),
    tint: TINTS.find((name) => name === fields.get("tint")) ?? null,
  };
}

function text(value: string | null): string {
  return (value ?? "").slice(0, TEXT_LIMIT);
}

function parsePath(path: string | null): string {
  if (path === null || path.length > TEXT_LIMIT) return "root";
  const segments = path.split("/").filter((segment) => segment !== "");
  return segments[0] === "root" && segments.length <= PATH_SEGMENTS ? segments.join("/") : "root";
}

function parseZoom(text: string | null): View["zoom"] {
  const [from, to, more] = (text ?? "").split(":").map(number);
  if (from === null || to === null || from === undefined || to === undefined || more !== undefined) return null;
  return from < to ? [from, to] : null;
}

function parseSort(text: string | null): Order | null {
  const column = COLUMNS.find((name) => name === text?.replace(/^-/, ""));
  return column === undefined ? null : { column, descending: text?.startsWith("-") === true };
}

function number(text: string | null): number | null {
  if (text === null || text.trim() === "") return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

/** The fragment of a view, `#` included; what is as usual is left out. */
export function formatView(view: View): string {
  const parts = [`path=${encodeURIComponent(view.path).replaceAll("%2F", "/")}`];
  if (view.tab !== HOME.tab) parts.push(`tab=${view.tab}`);
  if (view.x !== HOME.x) parts.push(`x=${view.x}`);
  if (view.zoom !== null) parts.push(`zoom=${rounded(view.zoom[0])}:${rounded(view.zoom[1])}`);
  if (view.filter !== "") parts.push(`filter=${encodeURIComponent(view.filter)}`);
  if (view.smooth > 0) parts.push(`smooth=${rounded(view.smooth)}`);
  if (!view.band) parts.push("band=0");
  if (view.at !== null) parts.push(`at=${rounded(view.at)}`);
  for (const name of view.log) parts.push(`log=${encodeURIComponent(name)}`);
  for (const name of view.ranks) parts.push(`ranks=${encodeURIComponent(name)}`);
  if (view.chart !== "") parts.push(`chart=${encodeURIComponent(view.chart)}`);
  if (view.severity !== HOME.severity) parts.push(`severity=${view.severity}`);
  if (view.kind !== "") parts.push(`class=${encodeURIComponent(view.kind)}`);
  if (view.words !== "") parts.push(`words=${encodeURIComponent(view.words)}`);
  if (view.find !== "") parts.push(`find=${encodeURIComponent(view.find)}`);
  if (view.sort !== null) parts.push(`sort=${view.sort.descending ? "-" : ""}${view.sort.column}`);
  if (view.module !== "") parts.push(`module=${encodeURIComponent(view.module)}`);
  if (view.tint !== null) parts.push(`tint=${view.tint}`);
  return `#${parts.join("&")}`;
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(13)));
}

/** The path one level up, or null at the root. */
export function parentOf(path: string): string | null {
  const cut = path.lastIndexOf("/");
  return cut < 0 ? null : path.slice(0, cut);
}

/** Whether `path` is `ancestor` or lies below it. */
export function isWithin(path: string, ancestor: string): boolean {
  return path === ancestor || path.startsWith(`${ancestor}/`);
}

/** The levels of a path, root first. A rank of the only host stands right below the root. */
export function levelsOf(path: string, hosts: number): { path: string; name: string }[] {
  const names = path.split("/");
  const levels = names.map((name, i) => ({ path: names.slice(0, i + 1).join("/"), name }));
  return hosts === 1 && levels.length > 2 ? levels.filter((_, i) => i !== 1) : levels;
}
