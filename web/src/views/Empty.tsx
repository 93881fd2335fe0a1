import type { ComponentChildren } from "preact";

/** A place where there is nothing, with a sentence that says why and what to do. */
export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}
