import { expect, it } from "vitest";
import { asRanks, asResources } from "../wire/guards";
import { hostRows, oddHosts, sortedHosts } from "./hosts";

const name = (i: number) => `gpu-${String(i).padStart(3, "0")}`;
const hosts = asResources(Array.from({ length: 64 }, (_, i) => ({ time: 1, path: `root/${name(i)}`, host: name(i), cpu: i === 9 ? 0.99 : 0.4 + (i % 5) / 100, memory_used: 10, memory_total: 100 })));
const ranks = asRanks(Array.from({ length: 128 }, (_, i) => ({ rank: i, host: name(i >> 1), path: `root/${name(i >> 1)}/rank${i}`, state: "alive", gpu: { util: i >> 1 === 20 ? 0.1 : 0.9, temperature: 60 + (i % 4) } })));

it("a host that is unlike the others is found by column, and small differences are none", () => {
  const rows = hostRows(hosts, ranks);
  expect(oddHosts(rows)).toEqual(new Map([["gpu-009", new Set(["cpu"])], ["gpu-020", new Set(["idlest"])]]));
  expect(oddHosts(rows.slice(0, 7))).toEqual(new Map());
});

it("rows sort by a column, what is unknown last either way", () => {
  const all = hostRows([...hosts, ...asResources([{ time: 1, path: "root/z", host: "z" }])], ranks);
  const some = sortedHosts(all, new Map(), { key: "cpu", descending: true });
  expect([some[0]?.host, some[64]?.host]).toEqual(["gpu-009", "z"]);
  expect(sortedHosts(all, new Map(), { key: "gpu", descending: false })[0]?.host).toBe("gpu-020");
});

it("hosts that are unlike the others come first, then all by name as people count", () => {
  const named = asResources(["n10", "n9", "n1"].map((host) => ({ time: 1, path: `root/${host}`, host })));
  const rows = hostRows(named, []);
  expect(sortedHosts(rows, new Map(), null).map(({ host }) => host)).toEqual(["n1", "n9", "n10"]);
  expect(sortedHosts(rows, new Map([["n9", true]]), null).map(({ host }) => host)).toEqual(["n9", "n1", "n10"]);
});
