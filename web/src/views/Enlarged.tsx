import { useLayoutEffect, useRef } from "preact/hooks";
import type { Crosshair } from "../charts/crosshair";
import { plain } from "../lib/text";
import { Chart } from "./ChartCard";
import { usePage } from "./context";

/** One chart over all else, as large as the window; Escape goes back to the others. */
export function Enlarged({ crosshair }: { crosshair: Crosshair }) {
  const page = usePage();
  const { chart } = page.view.value;
  const metric = chart === "" ? null : page.metric(chart);
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), [metric?.name]);
  if (metric === null) return null;
  return (
    <dialog
      ref={dialog}
      class="chart is-large"
      aria-label={plain(metric.name)}
      onClose={() => page.enlarge("")}
      onClick={(event) => {
        if (event.target === event.currentTarget) event.currentTarget.close(); // beside the chart
      }}
    >
      <div class="large">
        <Chart metric={metric} crosshair={crosshair} onClose={() => dialog.current?.close()} />
      </div>
    </dialog>
  );
}
