"""Robust statistics: what the others needed for the same steps, how noisy that is, and whether a rank stands out."""

import math

import msgspec
import numpy as np

from trackside.run.diagnose.entries import Array

LEAST_NOISE = 0.05
"""Nobody's step times are steadier than this; in natural logarithms, as all of it."""
CLIP = 3.0
"""A single step counts at most so many times the noise, so that one long pause proves nothing."""
SCALES = (5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of latest blocks that are looked at: a large excess shows in few of them, a small one in many."""
LASTING = 0.04
"""Ranks of one job differ by so much for ever: another room temperature, another neighbour on the host."""
CHANCES = 1e6
"""Independent looks a rank gets in a long run; sets how unlikely a finding must be."""
MOST_MEMORY = 0.8


def peer_medians(values: Array) -> Array:
    """For each row and column the median of the other rows; NaN without one, and where the value itself is unknown."""
    ordered = np.sort(values, axis=0)
    known = np.isfinite(values).sum(axis=0)
    peers = np.maximum(known - 1, 1)
    low, high = (peers - 1) // 2, peers // 2
    top = len(values) - 1
    median = (_without(ordered, values, low, top) + _without(ordered, values, high, top)) / 2
    return np.where(np.isfinite(values) & (known > 1), median, np.nan)


def _without(ordered: Array, values: Array, place: Array, top: int) -> Array:
    """The element of that place once a column's own value is taken out."""
    at = np.take_along_axis(ordered, place[None, :], axis=0)
    behind = np.take_along_axis(ordered, np.minimum(place + 1, top)[None, :], axis=0)
    return np.where(at < values, at, behind)


def column_medians(values: Array) -> Array:
    """Median of each column without its NaNs; NaN where nothing is known."""
    ordered = np.sort(values, axis=0)
    known = np.isfinite(values).sum(axis=0)
    at = np.maximum(known, 1)
    low = np.take_along_axis(ordered, ((at - 1) // 2)[None, :], axis=0)[0]
    high = np.take_along_axis(ordered, (at // 2)[None, :], axis=0)[0]
    return np.where(known > 0, (low + high) / 2, np.nan)


class Noise(msgspec.Struct, frozen=True):
    """How much a rank's relative time varies from block to block."""

    spread: Array
    """Standard deviation of each row."""
    memory: float
    """Correlation of neighbouring blocks, 0 to 0.8."""


def noise_of(excess: Array) -> Noise:
    """Noise of relative times, rows times blocks.

    Taken from differences of neighbours, in which a lasting shift shows once only, and by medians; a row counts as no
    steadier than all rows together.
    """
    rows, blocks = excess.shape
    if blocks < 3:
        return Noise(np.full(rows, np.inf), 0.0)
    near = np.abs(excess[:, 1:] - excess[:, :-1])
    far = np.abs(excess[:, 2:] - excess[:, :-2])
    close, apart = _median(near), _median(far)
    memory = min(MOST_MEMORY, max(0.0, (apart / close) ** 2 - 1.0)) if close > 0 else 0.0
    width = _row_medians(near)
    pooled = np.maximum(np.where(np.isfinite(width), width, close), close)
    spread = np.maximum(LEAST_NOISE, 1.4826 / math.sqrt(2.0) * pooled / math.sqrt(1.0 - memory))
    return Noise(spread, memory)


def _median(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0


def _row_medians(values: Array) -> Array:
    """Median of each row without its NaNs."""
    ordered = np.sort(values, axis=1)
    known = np.isfinite(values).sum(axis=1)
    at = np.maximum(known - 1, 0) // 2
    return np.where(known > 0, ordered[np.arange(len(values)), at], np.nan)


def limit_for(rows: int) -> float:
    """How many standard errors a mean must lie off before it is no chance, with so many ranks."""
    return math.sqrt(2.0 * math.log(CHANCES * max(1, rows)))


def bound_of(noise: Noise) -> Array:
    """How much a single block may count, for each row."""
    return LASTING + CLIP * noise.spread


class Scan(msgspec.Struct, frozen=True):
    """Means of the latest blocks on every scale; scales times rows."""

    scales: list[int]
    mean: Array
    """Of clipped relative times; NaN where too few blocks are known."""
    error: Array
    """Standard error of that mean."""


def scan(excess: Array, noise: Noise) -> Scan:
    """Look at the latest blocks on every scale there is."""
    blocks = excess.shape[1]
    scales = [scale for scale in SCALES if scale <= blocks]
    bound = bound_of(noise)[:, None]
    known = np.isfinite(excess)
    clipped = np.where(known, np.clip(np.nan_to_num(excess), -bound, bound), 0.0)
    sums = np.cumsum(clipped[:, ::-1], axis=1)
    counts = np.cumsum(known[:, ::-1], axis=1)
    at = np.array(scales, int) - 1
    total, count = sums[:, at].T, counts[:, at].T
    enough = count >= np.maximum(np.array(scales)[:, None] * 0.75, SCALES[0])
    carried = math.sqrt((1.0 + noise.memory) / (1.0 - noise.memory))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(enough, total / count, np.nan)
        error = np.where(enough, noise.spread * carried / np.sqrt(count), np.nan)
    return Scan(scales, mean, error)


def trimmed_mean(values: Array, part: float = 0.1) -> float:
    """Mean without the largest and the smallest tenth; NaN when nothing is known."""
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return math.nan
    cut = int(len(known) * part)
    return float(known[cut : len(known) - cut].mean())
