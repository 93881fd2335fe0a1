// Fails the build when the page's script outgrows its budget: 90 KB gzip, worker included. What is loaded later has a budget
// of its own, and must stand alone: inside a report nothing can be imported.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const folder = process.argv[2] ?? new URL("../../src/trackside/server/static/assets", import.meta.url).pathname;
let isFine = true;

/** @returns the texts of the scripts in a folder, after their sizes were said and weighed. */
function weigh(path, what, budgetKb) {
  const names = existsSync(path) ? readdirSync(path).filter((name) => name.endsWith(".js")) : [];
  const sizes = names.map((name) => gzipSync(readFileSync(join(path, name)), { level: 9 }).length / 1024);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  names.forEach((name, i) => console.log(`${sizes[i].toFixed(1).padStart(7)} KB gzip  ${name}`));
  if (names.length === 0 || total > budgetKb) fail(`${what}: ${total.toFixed(1)} KB gzip of ${budgetKb} KB in ${names.length} files`);
  return names.map((name) => [name, readFileSync(join(path, name), "utf8")]);
}

function fail(message) {
  console.error(message);
  isFine = false;
}

weigh(folder, "page script", 90);
for (const [name, text] of weigh(join(folder, "later"), "scripts loaded later", 24)) {
  if (/\bimport\s*[("'`{*]|\bexport\s*[{*]|\bfrom\s*["'`]\.\.?\//.test(text)) fail(`${name} imports or exports something, so a report cannot hold it`);
}
process.exit(isFine ? 0 : 1);
