"""Rows folded to one entry an x, or a bucket of it, so that extremes survive; pure."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.wire.documents import XAxis
from trackside.wire.messages import Reduction

Array = npt.NDArray[Any]
Columns = dict[str, Array]
"""Columns of equal length by name; rows have those of `ROW`, tables those of `TABLE`."""

ROW = ("rank", "generation", "epoch", "step", "time", "value")
TABLE = (
    *("key", "x_min", "x_max", "step", "epoch", "time"),
    *("total", "low", "high", "count", "finite", "bad", "steps", "last"),
)
"""What is known of each entry: `total`, `low`, `high` over finite values, `bad` the sum of the others, `steps` how many
different steps, `last` the value that came last."""


class Grid(msgspec.Struct, frozen=True):
    """An axis cut into buckets of one width, a power of two. Their edges stay where they are while a run grows."""

    width: float
    origin: float

    @classmethod
    def cover(cls, low: float, high: float, buckets: int, *, is_whole: bool) -> "Grid":
        """The finest grid that covers the range with so many buckets at most."""
        span = max(float(high) - float(low), 0.0)
        power = math.floor(math.log2(span / buckets)) if span > 0 else 0
        width = 2.0 ** max(power, 0 if is_whole else -20)
        while math.floor(high / width) - math.floor(low / width) + 1 > buckets:
            width *= 2
        return cls(width, math.floor(low / width) * width)

    def bucket(self, x: Array) -> Array:
        """Number of the bucket of each x, from 0."""
        if x.dtype.kind in "iu" and abs(self.origin) + self.width < 2**62:
            return (x.astype(np.int64) - np.int64(self.origin)) // np.int64(self.width)
        return np.floor((x.astype(np.float64) - self.origin) / self.width).astype(np.int64)

    def sql(self, column: str, *, is_whole: bool) -> str:
        """The same as an SQL expression."""
        if is_whole and abs(self.origin) + self.width < 2**62:
            return f"({column} - ({int(self.origin)})) // {int(self.width)}"
        return f"floor(({column}::DOUBLE - ({self.origin!r})) * {1 / self.width!r})::BIGINT"


def empty_rows() -> Columns:
    """No rows."""
    whole = {name: np.empty(0, np.int64) for name in ROW}
    return {**whole, "time": np.empty(0), "value": np.empty(0)}


def axis_of(rows: Columns, x: XAxis) -> Array:
    """The column of an axis; `relative` is the time here."""
    return rows["time"] if x in ("time", "relative") else rows[x]


def pick(rows: Columns, keep: Array) -> Columns:
    """Some of the rows."""
    return rows if keep.all() else {name: column[keep] for name, column in rows.items()}


def join(parts: Sequence[Columns]) -> Columns:
    """Rows or tables one below the other."""
    filled = [part for part in parts if len(part["count" if "count" in part else "value"])]
    if not filled:
        return dict(parts[0])
    if len(filled) == 1:
        return filled[0]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}


def fold_rows(rows: Columns, x: XAxis, points: int, *, in_steps: bool = False) -> tuple[Columns, bool]:
    """Fold rows by their own x, or by buckets when there are more than `points`; whether it was the latter.

    On a time axis the values of several ranks at one step are one entry, as their clocks differ.
    """
    along = axis_of(rows, x)
    key = _cohort_key(rows) if x in ("time", "relative") else along
    if key is not None and _distinct(key) <= points:
        table = fold(rows, key, along, in_steps=in_steps)
        return (table | {"std": deviations(rows, key)} if (table["count"] > 1).any() else table), False
    if not len(along):
        return fold(rows, along, along), False
    grid = Grid.cover(along.min(), along.max(), points, is_whole=along.dtype.kind in "iu")
    table = fold(rows, grid.bucket(along), along, in_steps=in_steps)
    return table, bool((table["x_min"] < table["x_max"]).any())


def fold(rows: Columns, key: Array, x: Array, *, in_steps: bool = False) -> Columns:
    """Fold rows of equal key to one entry, in the order of the keys.

    With `in_steps` the rows of an entry are taken in the order of their steps and these are counted; else `steps` is 1.
    """
    if not len(key):
        return {name: np.empty(0, np.int64) for name in TABLE} | {"value": np.empty(0)}
    order = np.lexsort((rows["step"], key)) if in_steps else np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], len(key)]
    value, step = rows["value"][order].astype(np.float64), rows["step"][order]
    is_finite = np.isfinite(value)
    with np.errstate(invalid="ignore", over="ignore"):
        return {
            "key": ordered[starts],
            "x_min": np.minimum.reduceat(x[order], starts),
            "x_max": np.maximum.reduceat(x[order], starts),
            "step": np.minimum.reduceat(step, starts),
            "epoch": np.maximum.reduceat(rows["epoch"][order], starts),
            "time": np.minimum.reduceat(rows["time"][order], starts),
            "total": np.add.reduceat(np.where(is_finite, value, 0.0), starts),
            "low": np.minimum.reduceat(np.where(is_finite, value, np.inf), starts),
            "high": np.maximum.reduceat(np.where(is_finite, value, -np.inf), starts),
            "count": ends - starts,
            "finite": np.add.reduceat(is_finite.astype(np.int64), starts),
            "bad": np.add.reduceat(np.where(is_finite, 0.0, value), starts),
            "steps": _steps_in(ordered, step, starts) if in_steps else np.ones(len(starts), np.int64),
            "last": value[ends - 1],
        }


def deviations(rows: Columns, key: Array) -> Array:
    """Standard deviation of the finite values of each key, in the order of the keys; NaN without any."""
    order = np.argsort(key, kind="stable")
    ordered, value = key[order], rows["value"][order].astype(np.float64)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(key)])
    value[~np.isfinite(value)] = np.nan
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        known = np.add.reduceat(np.isfinite(value).astype(np.int64), starts)
        # halves, and parts of the largest, for no square or difference of finite values to be beyond all numbers
        half = value / 2
        mean = np.add.reduceat(np.nan_to_num(half / np.repeat(known, lengths)), starts)
        off = np.abs(half - np.repeat(mean, lengths))
        most = np.maximum.reduceat(np.nan_to_num(off), starts)
        part = np.nan_to_num(off / np.repeat(np.where(most > 0, most, 1.0), lengths))
        return np.where(known > 0, 2 * (most * np.sqrt(np.add.reduceat(part * part, starts) / known)), np.nan)


def unite(tables: Sequence[Columns], *, by_steps: bool = False) -> Columns:
    """One table of several with the same keys; later tables hold later values."""
    both = join(tables)
    order = np.argsort(both["key"], kind="stable")
    key = both["key"][order]
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.empty(0, np.int64)
    if len(starts) == len(key):
        return {name: column[order] for name, column in both.items()}
    out = {"key": key[starts], "last": both["last"][order][np.r_[starts[1:], len(key)] - 1]}
    with np.errstate(invalid="ignore", over="ignore"):
        for name in ("x_min", "step", "time", "low"):
            out[name] = np.minimum.reduceat(both[name][order], starts)
        for name in ("x_max", "epoch", "high"):
            out[name] = np.maximum.reduceat(both[name][order], starts)
        for name in ("total", "count", "finite", "bad"):
            out[name] = np.add.reduceat(both[name][order], starts)
        steps = np.add if by_steps else np.maximum
        out["steps"] = steps.reduceat(both["steps"][order], starts)
    return out


def values_of(table: Columns, reduction: Reduction) -> tuple[Array, Array, Array]:
    """The cohort's value of each entry, its minimum and its maximum; what is not finite where nothing else is.

    A bucket of several steps shows the mean of their sums, its extreme, its last value.
    """
    none = table["finite"] == 0
    if reduction == "last":
        value = table["last"]
    elif reduction == "sum":
        value = table["total"] / np.maximum(table["steps"], 1)
    elif reduction == "mean":
        # A sum beyond the largest number is infinite; a mean of finite values never is.
        value = np.clip(table["total"] / np.maximum(table["finite"], 1), table["low"], table["high"])
    else:
        value = table["low" if reduction == "min" else "high"]
    low, high = np.where(none, table["bad"], table["low"]), np.where(none, table["bad"], table["high"])
    return np.where(none, table["bad"], value), low, high


def _distinct(key: Array) -> int:
    if not len(key):
        return 0
    ordered = np.sort(key)
    return 1 + int((ordered[1:] != ordered[:-1]).sum())


def _cohort_key(rows: Columns) -> Array | None:
    """What makes one entry on a time axis: the row's own time for one rank, the step for several that keep to it."""
    rank, generation = rows["rank"], rows["generation"]
    if not len(rank) or ((rank == rank[0]).all() and (generation == generation[0]).all()):
        return rows["time"]
    order = np.lexsort((rows["step"], generation, rank))
    repeats = np.ones(max(len(order) - 1, 0), bool)
    for column in (rank, generation, rows["step"]):
        ordered = column[order]
        repeats &= ordered[1:] == ordered[:-1]
    return None if repeats.any() else rows["step"]


def _steps_in(key: Array, step: Array, starts: Array) -> Array:
    """Different steps of each run of equal keys; rows are in the order of (key, step)."""
    is_new = np.r_[True, (key[1:] != key[:-1]) | (step[1:] != step[:-1])]
    counts: Array = np.add.reduceat(is_new.astype(np.int64), starts)
    return counts
