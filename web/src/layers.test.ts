// Imports run one way: app > views > state | charts > wire > lib, and net > wire. Only charts know uPlot and dagre.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const ROOT = dirname(fileURLToPath(import.meta.url));
const MAY: Record<string, string[]> = {
  lib: [],
  wire: ["lib"],
  state: ["wire", "lib"],
  charts: ["state", "wire", "lib"],
  net: ["wire", "lib"],
  views: ["charts", "state", "wire", "lib"],
  app: ["views", "charts", "state", "net", "wire", "lib"],
};

function violations(file: string, text: string): string[] {
  const layer = relative(ROOT, file).split("/")[0] ?? "";
  const found: string[] = [];
  for (const [, target = ""] of text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
    if (target.startsWith(".")) {
      const to = relative(ROOT, resolve(dirname(file), target)).split("/")[0] ?? "";
      if (to !== layer && !(MAY[layer] ?? []).includes(to)) found.push(`${relative(ROOT, file)} imports ${to}`);
    } else if (["uplot", "@dagrejs/dagre"].includes(target) && layer !== "charts") found.push(`${relative(ROOT, file)} imports ${target}`);
  }
  if (/^export default/m.test(text)) found.push(`${relative(ROOT, file)} has a default export`);
  return found;
}

it("layers hold", () => {
  const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name) && name.includes("/"));
  expect(files.length).toBeGreaterThan(40);
  expect(files.flatMap((name) => violations(join(ROOT, name), readFileSync(join(ROOT, name), "utf8")))).toEqual([]);
});

it("a planted violation is seen", () => {
  expect(violations(join(ROOT, "lib/x.ts"), 'import { a } from "../state/b";')).toHaveLength(1);
  expect(violations(join(ROOT, "views/x.tsx"), 'import uPlot from "uplot";')).toHaveLength(1);
  expect(violations(join(ROOT, "state/x.ts"), 'import { a } from "../charts/plot";')).toHaveLength(1);
  expect(violations(join(ROOT, "app/x.ts"), "export default 1;")).toHaveLength(1);
});
