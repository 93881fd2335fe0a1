interface Props {
  label: string;
  /** 0 to 1, or null when unknown. */
  ratio: number | null;
  text: string;
  /** A tick on the bar, 0 to 1: the peak of the interval. */
  peak?: number | null;
  title?: string;
  /** A full bar is a danger rather than a good use. */
  isLimit?: boolean;
  /** It says how things were. */
  isOld?: boolean;
}

/** A bar with its figure in words. */
export function Meter({ label, ratio, text, peak, title, isLimit = false, isOld = false }: Props) {
  const width = ratio === null ? 0 : Math.min(1, Math.max(0, ratio)) * 100;
  return (
    <span class={`meter ${isOld ? "is-old" : ""}`} title={title}>
      <span class="meter-label">{label}</span>
      <span class="meter-bar" aria-hidden="true">
        <i style={{ width: `${width}%` }} class={isLimit && width > 92 ? "is-full" : ""} />
        {peak != null && <b style={{ left: `${Math.min(1, peak) * 100}%` }} />}
      </span>
      <span class="meter-text">{text}</span>
    </span>
  );
}
