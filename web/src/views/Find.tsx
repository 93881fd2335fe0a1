import { usePage } from "./context";
import { Icon } from "./Icon";

/** Words that rows must fit; they are in the URL. */
export function Find({ label, hint }: { label: string; hint: string }) {
  const page = usePage();
  return (
    <label class="field is-search is-narrow">
      <Icon name="search" />
      <input type="search" aria-label={label} placeholder={hint} value={page.view.value.find} onInput={(event) => page.show({ find: event.currentTarget.value })} />
    </label>
  );
}
