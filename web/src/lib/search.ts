/** Index of the first element that is not below `target` in ascending `values`. */
export function lowerBound(values: ArrayLike<number>, target: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? Infinity) < target) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the element closest to `target` in ascending `values`, or -1 when there is none. */
export function nearest(values: ArrayLike<number>, target: number): number {
  const at = lowerBound(values, target);
  if (at === 0) return values.length ? 0 : -1;
  if (at === values.length) return at - 1;
  return target - (values[at - 1] ?? 0) <= (values[at] ?? 0) - target ? at - 1 : at;
}
