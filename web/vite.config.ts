import { defineConfig } from "vitest/config";

// What uPlot brings and no chart of ours uses: bars, steps and splines, axes of time (ours know the reader's zone), scales that are
// neither linear nor logarithmic, its legend, the line that is nearest to the pointer, and charts whose lines have an x each.
const UNUSED = [
  ["(paths.stepped = stepped);", ""],
  ["(paths.bars    = bars);", ""],
  ["(paths.spline  = monotoneCubic);", ""],
  ["uPlot.join = join;", ""],
  ["const FEAT_TIME          = true;", "const FEAT_TIME = false;"],
  ["uPlot.fmtDate = fmtDate;", ""],
  ["uPlot.tzDate  = tzDate;", ""],
  ["const showLegend = legend.show;", "const showLegend = false;"],
  ["legend.live", "false"],
  ["const cursorFocus = focus.prox >= 0;", "const cursorFocus = false;"],
  ["const mode = self.mode;", "const mode = 1;"],
  ["const mode = u.mode;", "const mode = 1;"],
  ["sc.distr == 4", "false"],
  ["sc.distr == 100", "false"],
  ["sc.distr == 2", "false"],
  ["scale.distr == 2", "false"],
  ["(distr == 4 ", "(false "],
  [": distr == 4 ", ": false "],
  [": distr == 100 ", ": false "],
  ["xScaleDistr == 4", "false"],
  ["xScaleDistr == 2", "false"],
  ["uPlot.rangeAsinh = rangeAsinh;", ""],
] as const;

/** Takes it out, so that the script is as small as what it does. */
const slim = {
  name: "slim-uplot",
  transform(code: string, id: string) {
    if (!id.includes("uPlot.esm.js")) return null;
    for (const [text] of UNUSED) if (!code.includes(text)) throw new Error(`uPlot has no "${text}" any more: look at what it brings, and at UNUSED in vite.config.ts`);
    return { code: UNUSED.reduce((left, [text, instead]) => left.replaceAll(text, instead), code), map: null };
  },
};

// One script, one style sheet, one small worker; every URL relative, so the page works below any prefix. What is loaded later
// lies apart: it is no part of the script's budget, and the report finds it there.
export default defineConfig({
  base: "./",
  plugins: [slim],
  build: {
    outDir: "../src/trackside/server/static",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: { output: { chunkFileNames: "assets/later/[name]-[hash].js" } },
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
