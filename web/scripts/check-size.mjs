// Fails the build when the page's script outgrows its budget: 90 KB gzip, worker included.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET_BYTES = 90 * 1024;
const folder = process.argv[2] ?? new URL("../../src/trackside/server/static/assets", import.meta.url).pathname;
const scripts = readdirSync(folder).filter((name) => name.endsWith(".js"));
const sizes = scripts.map((name) => [name, gzipSync(readFileSync(join(folder, name)), { level: 9 }).length]);
const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
for (const [name, bytes] of sizes) console.log(`${(bytes / 1024).toFixed(1).padStart(7)} KB gzip  ${name}`);
if (scripts.length === 0 || total > BUDGET_BYTES) {
  console.error(`page script: ${(total / 1024).toFixed(1)} KB gzip of ${BUDGET_BYTES / 1024} KB in ${scripts.length} files`);
  process.exit(1);
}
