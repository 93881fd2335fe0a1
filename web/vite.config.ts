import { defineConfig } from "vitest/config";

// One script, one style sheet, one small worker; every URL relative, so the page works below any prefix. What is loaded later
// lies apart: it is no part of the script's budget, and the report finds it there.
export default defineConfig({
  base: "./",
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
