/**
 * Exponential moving average that handles gaps.
 *
 * Unbiased at its start (as if nothing came before), blind to what is not finite (the average goes on behind it), and the
 * older the last value is in x, the less it weighs: a gap of ten usual distances forgets as ten steps would.
 *
 * @param weight 0 (none) to just below 1.
 */
export function ema(x: ArrayLike<number>, y: ArrayLike<number | null | undefined>, weight: number): (number | null)[] {
  const out: (number | null)[] = new Array(y.length).fill(null);
  const spacing = usualSpacing(x);
  let sum = 0;
  let mass = 0;
  let last: number | null = null;
  for (let i = 0; i < y.length; i++) {
    const value = y[i];
    const at = x[i];
    if (value === null || value === undefined || !Number.isFinite(value) || at === undefined) continue;
    const distance = last === null ? 1 : Math.max(1, Math.min(1000, (at - last) / spacing));
    const keep = weight ** distance;
    sum = sum * keep + value * (1 - weight);
    mass = mass * keep + (1 - weight);
    out[i] = sum / mass;
    last = at;
  }
  return out;
}

function usualSpacing(x: ArrayLike<number>): number {
  const gaps: number[] = [];
  const stride = Math.max(1, Math.floor(x.length / 200));
  for (let i = 1; i < x.length; i += stride) {
    const gap = (x[i] ?? 0) - (x[i - 1] ?? 0);
    if (gap > 0) gaps.push(gap);
  }
  gaps.sort((a, b) => a - b);
  return gaps[Math.floor(gaps.length / 2)] ?? 1;
}
