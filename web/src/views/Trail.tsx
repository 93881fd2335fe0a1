import { Fragment } from "preact";
import { formatView, levelsOf } from "../state/view";
import { usePage } from "./context";
import { Name } from "./Name";

/** The path as links, each one level. */
export function Trail() {
  const page = usePage();
  const levels = levelsOf(page.path.value, page.run.value?.hosts.length ?? 0);
  return (
    <nav class="trail" aria-label="Path">
      {levels.map(({ path, name: segment }, i) => {
        const isLast = i === levels.length - 1;
        return (
          <Fragment key={path}>
            {i > 0 && (
              <span class="trail-gap" aria-hidden="true">
                ▸
              </span>
            )}
            {isLast ? (
              <span aria-current="location">
                <Name text={segment} />
              </span>
            ) : (
              <PathLink path={path} text={segment} />
            )}
          </Fragment>
        );
      })}
    </nav>
  );
}

/** A link to a path of the run; a plain click stays in the page. */
export function PathLink({ path, text, class: name }: { path: string; text: string; class?: string }) {
  const page = usePage();
  return (
    <a
      class={`path-link ${name ?? ""}`}
      href={formatView({ ...page.view.value, path, at: null })}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        page.descend(path);
      }}
    >
      <Name text={text} title={path} />
    </a>
  );
}
