import { expect, it } from "vitest";
import { formatView, HOME, isWithin, levelsOf, parentOf, parseView, type View } from "./view";

it("what one sees survives the URL", () => {
  const view: View = { path: "root/gpu 01/rank3", tab: "events", x: "relative", zoom: [0.5, 120.25], filter: "/^a&b=#%/", smooth: 0.6, band: false, at: 42, find: "gpu-001 & failed", sort: { column: "own", descending: true }, module: "layer1.0.conv1", tint: "memory", chart: "a/b &c", log: new Set(["a/b,c&d", "lr"]), ranks: new Set(["loss"]), severity: "warn", kind: "rank lost", words: "rank 1" };
  expect(parseView(formatView(view))).toEqual(view);
  expect(formatView(HOME)).toBe("#path=root");
  expect(formatView({ ...HOME, path: "root/gpu-01/rank3" })).toBe("#path=root/gpu-01/rank3");
});

it("nonsense in the URL is the usual view", () => {
  expect(parseView("#path=../etc&tab=nope&x=foo&zoom=5:2&smooth=9&at=x")).toEqual({ ...HOME, smooth: 0.99 });
  expect(parseView("#path=root/a/b/c/d&zoom=1:2:3")).toEqual(HOME);
  expect(parseView("#sort=-nothing")).toEqual(HOME);
  expect(parseView("")).toEqual(HOME);
});

it("paths know their parents", () => {
  expect(parentOf("root/gpu-01/rank3")).toBe("root/gpu-01");
  expect(parentOf("root")).toBeNull();
  expect(isWithin("root/gpu-010", "root/gpu-01")).toBe(false);
  expect(isWithin("root/gpu-01/rank3", "root/gpu-01")).toBe(true);
});

it("test_b38 a single host has no host level", () => {
  expect(levelsOf("root/a/rank3", 1).map((level) => level.path)).toEqual(["root", "root/a/rank3"]);
  expect(levelsOf("root/a/rank3", 2).map((level) => level.name)).toEqual(["root", "a", "rank3"]);
  expect(levelsOf("root", 1)).toEqual([{ path: "root", name: "root" }]);
});

it("what is looked for among ranks and hosts is in the link", () => {
  expect(formatView({ ...HOME, tab: "ranks", find: "gpu-001 failed" })).toBe("#path=root&tab=ranks&find=gpu-001%20failed");
  expect(parseView("#find=gpu-001%20failed").find).toBe("gpu-001 failed");
});
