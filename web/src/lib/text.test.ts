import { expect, it } from "vitest";
import { csv } from "./csv";
import { curveLabel, filterOf, groupOf, leafOf, plain, plainLines, sentence } from "./text";

it("controls that reorder or hide text become visible", () => {
  expect(plain("a\u202egnp.exe\u0000\u2066x\u200f")).toBe("a\ufffdgnp.exe\ufffd\ufffdx\ufffd");
  expect(plain("schön 日本 🙂")).toBe("schön 日本 🙂");
  expect(plainLines("a\n\tb\u202e")).toBe("a\n\tb\ufffd");
});

it("groups by the part before the last slash", () => {
  expect(["loss", "train/loss", "a/b/c", "/x", "x/"].map(groupOf)).toEqual(["", "train", "a/b", "", "x"]);
  expect(["loss", "train/loss", "a/b/c", "/x", "x/"].map(leafOf)).toEqual(["loss", "loss", "c", "/x", "x/"]);
});

it("test_d68 filters by text or regular expression on the whole name", () => {
  for (const name of ["f1-score", "a/b:c@1", "timing(s)/gen", "größe 🦊", "[x]", "a+b"]) {
    expect(filterOf(name).matches(`train/${name}`)).toBe(true);
    expect(filterOf(name).problem).toBeNull();
  }
  expect(filterOf("LOSS").matches("train/loss")).toBe(true);
  expect(filterOf("/^val\\//").matches("train/val/x")).toBe(false);
  expect(filterOf("f1-score").matches("f1-score")).toBe(true);
  expect(filterOf("/(/").problem).not.toBeNull();
  expect(filterOf("").matches("anything")).toBe(true);
});

it("test_b38 a legend names the reduction", () => {
  expect(curveLabel("train/loss", "mean")).toBe("loss (mean)");
  expect(curveLabel("n".repeat(500), "max")).toBe(`${"n".repeat(15)}… (max)`);
});

it("a spreadsheet never takes a name for a formula", () => {
  const text = csv(["epoch", "=cmd()|'a'!A1", 'say "x"', "a,b"], [[1, -2.5, null, "+1"]]);
  expect(text).toBe('epoch,\'=cmd()|\'a\'!A1,"say ""x""","a,b"\r\n1,-2.5,,\'+1\r\n');
});

it("what others say becomes a sentence", () => {
  expect(["rank 1 waits", "Done.", "", "a\u202eb"].map(sentence)).toEqual(["Rank 1 waits.", "Done.", "", "A\ufffdb."]);
});
