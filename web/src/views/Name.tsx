import { plain } from "../lib/text";

interface Props {
  text: string;
  /** What pointing at it says; the whole text unless given. */
  title?: string;
  class?: string;
}

/** Text from a user's job: isolated, harmless, cut with an ellipsis where it does not fit. */
export function Name({ text, title, class: name }: Props) {
  return (
    <bdi class={`name ${name ?? ""}`} title={plain(title ?? text)}>
      {plain(text)}
    </bdi>
  );
}
