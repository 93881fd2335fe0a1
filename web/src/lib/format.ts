// Numbers, durations, bytes and times as people read them. Unknown is "–", never 0.

export const UNKNOWN = "–";
const THIN = "\u202f";

/** Groups the integer digits of a plain decimal in threes. */
export function group(text: string): string {
  const [whole = "", fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** An integer such as a step or a count. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return Number.isFinite(value) ? group(Math.round(value).toString()) : nonFinite(value);
}

function nonFinite(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  return value > 0 ? "+Inf" : "−Inf";
}

function exponential(value: number): string {
  return value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2").replace("e+", "e");
}

/** A metric's value: `0`, `1.00e-04`, four decimals below 100, else two. */
export function metric(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (!Number.isFinite(value)) return nonFinite(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001 || size >= 1e9) return exponential(value);
  return size < 100 ? value.toFixed(4) : group(value.toFixed(2));
}

/** An axis label: as short as tells neighbours apart. */
export function tick(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 0.001) return trimmed(value.toExponential(1)).replace("e+", "e");
  if (size >= 1e6) return `${trimmed((value / 1e6).toFixed(2))}M`;
  if (size >= 1e4) return `${trimmed((value / 1e3).toFixed(1))}k`;
  return group(trimmed(size >= 100 ? value.toFixed(1) : value.toPrecision(4)));
}

export function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+(?=e|$)/, "") : text;
}

/** Seconds as `420ms`, `1.5s`, `12s`, `4m 32s`, `3h 12m`, `2d 4h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  const s = Math.max(0, seconds);
  if (s < 0.9995) return `${Math.round(s * 1000)}ms`;
  if (s < 9.95) return `${s.toFixed(1)}s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${pad(whole % 60)}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h ${pad(minutes % 60)}m`;
  return `${Math.floor(minutes / 1440)}d ${Math.floor((minutes % 1440) / 60)}h`;
}

/** A short time with three digits: `85µs`, `1.24ms`, `34.5ms`; from 100 ms on as `duration`. */
export function fine(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  const s = Math.max(0, seconds);
  if (s === 0 || s >= 0.0995) return duration(s);
  return s < 0.0009995 ? `${Math.max(1, Math.round(s * 1e6))}µs` : `${(s * 1000).toPrecision(3)}ms`;
}

/** A running clock: whole seconds, so that it ticks evenly. */
export function clock(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  const s = Math.max(0, Math.floor(seconds));
  const hours = Math.floor(s / 3600);
  if (hours >= 24) return `${Math.floor(hours / 24)}d ${pad(hours % 24)}h ${pad(Math.floor(s / 60) % 60)}m`;
  if (hours > 0) return `${hours}h ${pad(Math.floor(s / 60) % 60)}m ${pad(s % 60)}s`;
  return s >= 60 ? `${Math.floor(s / 60)}m ${pad(s % 60)}s` : `${s}s`;
}

export function pad(value: number): string {
  return value.toString().padStart(2, "0");
}

/** An age such as `0.3s`; coarser the older it is. */
export function age(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  return seconds < 10 ? `${Math.max(0, seconds).toFixed(1)}s` : duration(seconds);
}

const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

/** Bytes, base 1024, one decimal from GB on. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit >= 3 ? size.toFixed(1) : Math.round(size)} ${BYTE_UNITS[unit]}`;
}

/** `61.2 / 80.0 GB` with one unit when both share it. */
export function bytesOf(used: number | null | undefined, total: number | null | undefined): string {
  const left = bytes(used);
  const right = bytes(total);
  if (left === UNKNOWN || right === UNKNOWN) return left;
  const [figure, unit] = left.split(" ");
  return unit === right.split(" ")[1] ? `${figure} / ${right}` : `${left} / ${right}`;
}

/** A ratio 0 to 1 in per cent. */
export function percent(ratio: number | null | undefined, digits = 0): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return UNKNOWN;
  return `${(ratio * 100).toFixed(digits)}${THIN}%`;
}

/** A rank's part of the batch: with more digits the smaller it is, so that those of a thousand ranks differ. */
export function share(ratio: number | null | undefined): string {
  return percent(ratio, ratio != null && ratio < 0.01 ? 3 : 1);
}

/** A rate, compact: `412`, `3.1 k`, `2.4 M`. */
export function compact(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)}${THIN}G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)}${THIN}M`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(1)}${THIN}k`;
  return size >= 100 || size === 0 ? Math.round(value).toString() : value.toPrecision(3);
}

/** Local time of day of a UTC epoch second. */
export function timeOfDay(seconds: number): string {
  const at = new Date(seconds * 1000);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** As short as tells when: the time of day, with the date before it unless it is today's. */
export function when(seconds: number, hasSeconds = true): string {
  const clock = timeOfDay(seconds).slice(0, hasSeconds ? 8 : 5);
  const date = dateOf(seconds);
  return date === dateOf(Date.now() / 1000) ? clock : `${date} ${clock}`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** Local day of a UTC epoch second, with its year unless it is this one. */
export function dateOf(seconds: number): string {
  const at = new Date(seconds * 1000);
  const year = at.getFullYear() === new Date().getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${MONTHS[at.getMonth()]} ${at.getDate()}${year}`;
}

/** Local date and time with the zone named. */
export function moment(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  const at = new Date(seconds * 1000);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${timeOfDay(seconds)} ${zone(at)}`;
}

/** The short name of the local time zone at a moment. */
export function zone(at: Date = new Date()): string {
  const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at);
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "";
}
