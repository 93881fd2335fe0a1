import { useEffect, useRef } from "preact/hooks";
import type { Crosshair } from "./crosshair";
import type { Picture } from "./aligned";
import { isPrinted, usePrinting } from "./inview";
import { Plot, type Frame } from "./plot";

interface Props {
  picture: Picture;
  frame: Frame;
  crosshair: Crosshair;
  label: string;
  onPoint(index: number | null): void;
  onZoom(from: number, to: number): void;
  onReset(): void;
  /** Whether the crosshair is moved by keys: what is read out is said aloud then. */
  onKeys(isMoved: boolean): void;
  onEnter?(): void;
  /** Whether it has the keys as soon as it is there. */
  isFirst?: boolean;
}

/** A plot in the page: it follows its box's size and can be driven by keys. */
export function PlotView(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const latest = useRef(props);
  const point = useRef<number | null>(null);
  /** Of the box, as it was told: to ask for it would lay the page out once more for every chart. */
  const size = useRef<readonly [number, number]>([0, 0]);
  latest.current = props;
  const isPrinting = usePrinting();

  useEffect(() => {
    const element = host.current;
    if (element === null) return undefined;
    const events = {
      onPoint: (index: number | null) => {
        point.current = index === -1 ? null : index;
        latest.current.onPoint(index);
      },
      onZoom: (from: number, to: number) => latest.current.onZoom(from, to),
      onReset: () => latest.current.onReset(),
    };
    const made = new Plot(element, events, props.crosshair);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      const now = [element.clientWidth, element.clientHeight] as const;
      if (now[0] === size.current[0] && now[1] === size.current[1]) return;
      size.current = now;
      paint(made, now, latest.current);
    });
    observer.observe(element);
    if (latest.current.isFirst === true) element.focus({ preventScroll: true });
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [props.crosshair]);

  useEffect(() => {
    if (plot.current !== null) paint(plot.current, size.current, props);
  }, [props.picture, props.frame, isPrinting]);

  return (
    <div
      ref={host}
      class="plot"
      role="img"
      tabIndex={0}
      aria-label={props.label}
      onKeyDown={(event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
        if (by !== undefined) {
          event.preventDefault();
          props.onKeys(true);
          plot.current?.step(by, point.current);
        } else if (event.key === "Enter") props.onEnter?.();
        else if (event.key === "Escape" && props.isFirst !== true) props.onReset();
      }}
      onBlur={() => props.onKeys(false)}
    />
  );
}

/** Half a sheet: drawn so, its words are as large on paper as the others. */
const PAPER_WIDTH = 330;
const PAPER_HEIGHT = 176;

function paint(plot: Plot, [width, height]: readonly [number, number], { picture, frame }: Props): void {
  if (isPrinted()) return plot.draw(picture, frame, PAPER_WIDTH, PAPER_HEIGHT);
  if (width > 0 && height > 0) plot.draw(picture, frame, width, height);
}
