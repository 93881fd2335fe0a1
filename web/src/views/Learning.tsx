import { useEffect } from "preact/hooks";
import * as format from "../lib/format";
import { leadMetric } from "../state/groups";
import { outline, trendOf, type Trend } from "../state/trend";
import { usePage } from "./context";
import { Name } from "./Name";
import { Vital } from "./Vitals";

const ARROWS: Record<NonNullable<Trend>, string> = { falling: "↘", rising: "↗", flat: "→", "not finite": "✕" };
const WIDTH = 120;
const HEIGHT = 26;

/** The leading metric's value, its course in a word and in outline. */
export function Learning() {
  const page = usePage();
  const name = leadMetric(page.metricNames.value);
  const curve = name === null ? null : page.curves.get(name, page.path.value, "step");
  useEffect(() => (curve === null ? undefined : page.curves.use(curve)), [curve]);
  if (name === null || curve === null) {
    return (
      <Vital label="Loss">
        <span class="vital-figure is-unknown">–</span>
        <span class="vital-note">no metric yet</span>
      </Vital>
    );
  }
  const { entries } = curve.view(null, 0);
  const trend = trendOf(entries);
  const last = entries.mean[entries.mean.length - 1];
  return (
    <div class="vital vital-lead" role="group" aria-label={name}>
      <span class="vital-label">
        <Name text={name} />
      </span>
      <span class="vital-figure">{format.metric(last)}</span>
      <span class={`vital-note ${trend === "not finite" ? "is-bad" : ""}`}>
        {trend === null ? (curve.state === "ready" ? "too few points" : "\u00a0") : `${ARROWS[trend]} ${trend}`}
      </span>
      <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        <path d={outline(entries, WIDTH, HEIGHT)} />
      </svg>
    </div>
  );
}
