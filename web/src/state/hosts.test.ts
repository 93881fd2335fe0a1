import { expect, it } from "vitest";
import { asRanks, asResources } from "../wire/guards";
import { hostRows, oddHosts } from "./hosts";

const name = (i: number) => `gpu-${String(i).padStart(3, "0")}`;
const hosts = asResources(Array.from({ length: 64 }, (_, i) => ({ time: 1, path: `root/${name(i)}`, host: name(i), cpu: i === 9 ? 0.99 : 0.4 + (i % 5) / 100, memory_used: 10, memory_total: 100 })));
const ranks = asRanks(Array.from({ length: 128 }, (_, i) => ({ rank: i, host: name(i >> 1), path: `root/${name(i >> 1)}/rank${i}`, state: "alive", gpu: { util: i >> 1 === 20 ? 0.1 : 0.9, temperature: 60 + (i % 4) } })));

it("a host that is unlike the others is found by column, and small differences are none", () => {
  const rows = hostRows(hosts, ranks, null);
  expect(oddHosts(rows)).toEqual(new Map([["gpu-009", new Set(["cpu"])], ["gpu-020", new Set(["idlest"])]]));
  expect(oddHosts(rows.slice(0, 7))).toEqual(new Map());
});

it("rows sort by a column, what is unknown last either way", () => {
  const some = hostRows([...hosts, ...asResources([{ time: 1, path: "root/z", host: "z" }])], ranks, { key: "cpu", descending: true });
  expect([some[0]?.host, some[64]?.host]).toEqual(["gpu-009", "z"]);
  expect(hostRows(hosts, ranks, { key: "gpu", descending: false })[0]?.host).toBe("gpu-020");
});
