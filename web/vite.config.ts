import { defineConfig } from "vitest/config";

// One script, one style sheet, one small worker; every URL relative, so the page works below any prefix.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/trackside/server/static",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
