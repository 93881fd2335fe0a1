import { plain } from "./text";

/** Hands the reader a file made in the page. */
export function save(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A name as part of a file's. */
export function safe(name: string): string {
  return plain(name).replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80) || "run";
}
