"""Values of many ranks at one step, reduced to one cohort value with its spread."""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.wire.columns import NO_EPOCH, PointBatch
from trackside.wire.documents import Number, PointsUpdate
from trackside.wire.messages import Reduction
from trackside.wire.values import to_json_numbers

Array = npt.NDArray[Any]

WINDOW_STEPS = 4096
"""Steps of one metric that can still be amended; the store holds all."""
WINDOW_ROWS = 600_000
"""Steps of all metrics of one window together, about 50 MB; with very many metrics each keeps fewer."""
FEWEST_STEPS = 16

_ROW = np.dtype(
    [
        ("step", "i8"),
        ("epoch", "i4"),
        ("time", "f8"),
        ("finite", "i8"),
        ("bad", "i8"),
        ("bad_value", "f8"),
        ("sum", "f8"),
        ("min", "f8"),
        ("max", "f8"),
        ("last", "f8"),
        ("low_rank", "i4"),
        ("high_rank", "i4"),
        ("dirty", "?"),
    ]
)
_NAMES = _ROW.names or ()
_WHOLE = np.dtype((np.void, _ROW.itemsize))
"""A row as bytes: copied at once, and not field by field, which takes four times as long."""


class GroupedSteps(msgspec.Struct, frozen=True):
    """A batch reduced to one row per (metric, step), sorted so."""

    generation: int
    metric: Array
    rows: Array

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """(metric, first row, row behind the last) of each metric."""
        edges = np.flatnonzero(self.metric[1:] != self.metric[:-1]) + 1
        bounds = [0, *edges.tolist(), len(self.metric)]
        for start, end in itertools.pairwise(bounds):
            yield int(self.metric[start]), start, end


def group(batch: PointBatch) -> list[GroupedSteps]:
    """Reduce a batch, each generation in it by itself, ascending."""
    if not len(batch):
        return []
    first, last = int(batch.generation.min()), int(batch.generation.max())
    if first == last:
        return [_group(batch, first)]
    return [_group(select_rows(batch, batch.generation == g), int(g)) for g in np.unique(batch.generation)]


def _group(batch: PointBatch, generation: int) -> GroupedSteps:
    """Reduce values of one generation; every column is handled as a whole."""
    order = np.lexsort((batch.step, batch.metric))
    metric, step = batch.metric[order], batch.step[order]
    value, rank = batch.value[order], batch.rank[order]
    starts = np.flatnonzero(np.r_[True, (metric[1:] != metric[:-1]) | (step[1:] != step[:-1])])
    ends = np.r_[starts[1:], len(step)]
    finite = np.isfinite(value)
    rows = np.zeros(len(starts), _ROW)
    rows["step"], rows["epoch"] = step[starts], batch.epoch[order][ends - 1]
    rows["time"] = np.maximum.reduceat(batch.time[order], starts)
    rows["finite"] = np.add.reduceat(finite.astype(np.int64), starts)
    rows["bad"] = (ends - starts) - rows["finite"]
    rows["last"] = value[ends - 1]
    clean = value if finite.all() else np.where(finite, value, 0.0)
    with np.errstate(over="ignore"):
        rows["sum"] = np.add.reduceat(clean, starts)
    low = np.where(finite, value, np.inf)
    high = np.where(finite, value, -np.inf)
    rows["min"], rows["max"] = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    lengths = ends - starts
    rows["low_rank"] = np.maximum.reduceat(np.where(low == np.repeat(rows["min"], lengths), rank, -1), starts)
    rows["high_rank"] = np.maximum.reduceat(np.where(high == np.repeat(rows["max"], lengths), rank, -1), starts)
    rows["bad_value"] = _bad_values(value, finite, starts)
    rows["dirty"] = True
    return GroupedSteps(generation, metric[starts], rows)


def _bad_values(value: Array, finite: Array, starts: Array) -> Array:
    """One non-finite value of each group (NaN before infinities), 0 where there is none."""
    if finite.all():
        return np.zeros(len(starts))
    with np.errstate(invalid="ignore"):
        return np.add.reduceat(np.where(finite, 0.0, value), starts)


def _joined(before: Array, after: Array) -> Array:
    return np.concatenate([before.view(_WHOLE), after.view(_WHOLE)]).view(_ROW)


def _merge_into(kept: Array, new: Array) -> None:
    """Add rows of the same steps to what is kept of them."""
    with np.errstate(over="ignore", invalid="ignore"):  # sums beyond all numbers, a NaN and an infinity
        for name, combine in _COMBINE.items():
            kept[name] = combine(kept[name], new[name])
    lower, higher = new["min"] <= kept["min"], new["max"] >= kept["max"]
    kept["low_rank"] = np.where(lower, new["low_rank"], kept["low_rank"])
    kept["high_rank"] = np.where(higher, new["high_rank"], kept["high_rank"])
    kept["min"], kept["max"] = np.minimum(kept["min"], new["min"]), np.maximum(kept["max"], new["max"])
    kept["last"], kept["dirty"] = new["last"], True


_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "finite": np.add,
    "bad": np.add,
    "bad_value": np.add,
    "sum": np.add,
    "time": np.maximum,
    "epoch": np.maximum,
}


class MetricWindow:
    """The latest steps of one metric, ascending, each still open to late ranks.

    Where a later generation (after an elastic restart) logs steps again, its values stand alone.
    """

    __slots__ = ("_dirty_at", "_from", "_generation", "_limit", "_rows", "_used")

    def __init__(self, limit: int = WINDOW_STEPS) -> None:
        self._rows = np.zeros(min(64, 2 * limit), _ROW)
        self._used = self._dirty_at = 0
        """Rows in use, and the first of them that may have changed since changes were last taken."""
        self._limit = limit
        self._generation: int | None = None
        self._from: int | None = None
        """First step of the present generation, when there was one before it."""

    @property
    def rows(self) -> Array:
        """The rows in use, as a view."""
        return self._rows[max(0, self._used - self._limit) : self._used]

    def shrink(self, limit: int) -> None:
        """Keep fewer steps from now on."""
        if limit < self._limit:
            self._limit = limit
            self._replace(self.rows)

    def add(self, new: Array, generation: int = 0) -> None:
        """Take rows of ascending, distinct steps."""
        new = self._settle(new, generation)
        if not len(new):
            return
        kept = self.rows
        if not len(kept) or new["step"][0] > kept["step"][-1]:
            self._append(new)
            return
        at = bisect_left(kept["step"], new["step"][0])  # the column as a whole would be copied for a search
        late = kept[at:]
        place = np.searchsorted(late["step"], new["step"])
        known = place < len(late)
        known[known] = late["step"][place[known]] == new["step"][known]
        if known.any():
            merged = late[place[known]]
            _merge_into(merged, new[known])
            late[place[known]] = merged
            self._dirty_at = min(self._dirty_at, self._used - len(late))
        fresh = new[~known]
        if not len(fresh):
            return
        if fresh["step"][0] > kept["step"][-1]:
            self._append(fresh)
            return
        if len(kept) >= self._limit:
            fresh = fresh[fresh["step"] > kept["step"][0]]
        both = _joined(kept, fresh)
        self._replace(both[np.argsort(both["step"], kind="stable")])

    def _settle(self, new: Array, generation: int) -> Array:
        """Return the rows that count, and drop what a later generation has replaced."""
        if self._generation is None:
            self._generation = generation
        if generation == self._generation and self._from is None:
            return new
        first = int(new["step"][0])
        if generation < self._generation:
            return new if self._from is None else new[new["step"] < self._from]
        if generation > self._generation:
            self._drop(first, None)
            self._generation, self._from = generation, first
        elif self._from is not None and first < self._from:
            self._drop(first, self._from)
            self._from = first
        return new

    def supersede(self, generation: int, first: int) -> None:
        """A later generation goes on at `first`, though it has not told this metric yet."""
        if self._generation is not None and self._generation < generation:
            self._drop(start=first, end=None)

    def _drop(self, start: int, end: int | None) -> None:
        kept = self.rows
        stays = kept["step"] < start
        if end is not None:
            stays |= kept["step"] >= end
        if not stays.all():
            self._replace(kept[stays])

    def _append(self, new: Array) -> None:
        total = self._used + len(new)
        if total > len(self._rows):
            self._replace(_joined(self.rows, new))
            return
        self._dirty_at = min(self._dirty_at, self._used)
        self._rows.view(_WHOLE)[self._used : total] = new.view(_WHOLE)
        self._used = total

    def _replace(self, rows: Array) -> None:
        rows = rows[-self._limit :]
        room = min(2 * self._limit, max(64, 2 * len(rows)))
        fresh = np.zeros(room, _ROW)
        fresh.view(_WHOLE)[: len(rows)] = rows.view(_WHOLE)
        self._rows, self._used, self._dirty_at = fresh, len(rows), 0

    def take_dirty(self, limit: int) -> Array:
        """Rows changed since the last call, ascending, at most the latest `limit`."""
        start = max(0, self._used - self._limit, self._dirty_at)
        rows, self._dirty_at = self._rows[start : self._used], self._used
        changed = np.flatnonzero(rows["dirty"])
        rows["dirty"] = False
        return rows[changed[-limit:]]


class CohortWindow:
    """Every metric's window for one set of ranks (a path of the tree).

    Args:
        ranks: whose values count; None: everybody's.
        steps: of each metric that stay open to late ranks; fewer cost less memory (85 bytes a step).
        rows: steps of all metrics together.

    Threads: one at a time.
    """

    def __init__(self, ranks: frozenset[int] | None = None, steps: int = WINDOW_STEPS, rows: int = WINDOW_ROWS) -> None:
        self._steps = self._limit = steps
        self._most_rows = rows
        self._ranks = None if ranks is None else np.array(sorted(ranks), np.int32)
        self._windows: dict[int, MetricWindow] = {}
        self._changed: set[int] = set()
        self._generation: int | None = None
        self._from: int | None = None
        """First step of the present generation over all metrics, when there was one before it."""

    def add(self, batch: PointBatch) -> None:
        """Take the batch's values of this cohort's ranks."""
        mine = batch if self._ranks is None else select_ranks(batch, self._ranks)
        for grouped in group(mine):
            self.add_grouped(grouped)

    def add_grouped(self, grouped: GroupedSteps) -> None:
        """The same for values that are already reduced."""
        if self._generation is None:
            self._generation = grouped.generation
        if grouped.generation != self._generation or self._from is not None:
            grouped = self._supersede(grouped)
            if not len(grouped.rows):
                return
        for metric, start, end in grouped.spans():
            window = self._windows.get(metric)
            if window is None:
                window = self._open(metric)
            window.add(grouped.rows[start:end], grouped.generation)
            self._changed.add(metric)

    def _supersede(self, grouped: GroupedSteps) -> GroupedSteps:
        """Drop what a later generation trains again, also of metrics that it has not told yet; return what counts."""
        first = int(grouped.rows["step"].min())
        if grouped.generation < (self._generation or 0):
            if self._from is None:
                return grouped
            keep = grouped.rows["step"] < self._from
            return GroupedSteps(grouped.generation, grouped.metric[keep], grouped.rows[keep])
        if grouped.generation > (self._generation or 0) or first < (self._from or 0):
            self._generation, self._from = grouped.generation, first
            for window in self._windows.values():
                window.supersede(grouped.generation, first)
        return grouped

    def _open(self, metric: int) -> MetricWindow:
        """A further metric; with very many, all of them keep fewer steps."""
        limit = max(FEWEST_STEPS, min(self._steps, self._most_rows // (len(self._windows) + 1)))
        if limit < self._limit // 2 or limit == FEWEST_STEPS < self._limit:
            self._limit = limit
            for window in self._windows.values():
                window.shrink(limit)
        window = self._windows[metric] = MetricWindow(self._limit)
        return window

    def take_changes(self, limit: int = 2000) -> dict[int, Array]:
        """Rows changed since the last call, by metric id."""
        changes = {metric: self._windows[metric].take_dirty(limit) for metric in sorted(self._changed)}
        self._changed.clear()
        return changes

    def recent(self, limit: int = 500) -> dict[int, Array]:
        """The latest rows of every metric, without marking anything as taken."""
        return {metric: window.rows[-limit:] for metric, window in self._windows.items()}

    def last(self, metric: int, reduction: Reduction = "mean") -> float | None:
        """Latest cohort value of a metric; None when it has none."""
        window = self._windows.get(metric)
        if window is None or not len(window.rows):
            return None
        # as `reduced` does it, in plain numbers: arrays of one row cost three times as much
        row = dict(zip(_NAMES, window.rows[-1].item(), strict=True))
        if reduction != "last" and not row["finite"]:
            return float(row["bad_value"])
        if reduction == "mean":
            return float(min(max(row["sum"] / row["finite"], row["min"]), row["max"]))
        return float(row[reduction])


def select_ranks(batch: PointBatch, ranks: Array) -> PointBatch:
    """Return the rows of these ranks."""
    keep = np.isin(batch.rank, ranks)
    return batch if keep.all() else select_rows(batch, keep)


def select_rows(batch: PointBatch, keep: Array) -> PointBatch:
    """Return the rows where `keep` is true."""
    return PointBatch(
        metric=batch.metric[keep],
        rank=batch.rank[keep],
        generation=batch.generation[keep],
        epoch=batch.epoch[keep],
        step=batch.step[keep],
        time=batch.time[keep],
        value=batch.value[keep],
    )


def reduced(rows: Array, reduction: Reduction) -> Array:
    """The cohort value of each row; a step with no finite value keeps its non-finite one."""
    if reduction == "last":
        return np.asarray(rows["last"], np.float64)
    values = _means(rows) if reduction == "mean" else rows[reduction]
    return np.where(rows["finite"] > 0, values, rows["bad_value"])


def _means(rows: Array) -> Array:
    """Means of the finite values, 0 without any; within their extremes also where their sum is beyond all numbers."""
    means = np.clip(rows["sum"] / np.maximum(rows["finite"], 1), rows["min"], rows["max"])
    return np.where(rows["finite"] > 0, means, 0.0)


def update_of(rows: Array, reduction: Reduction) -> PointsUpdate:
    """Rows as the stream's columns."""
    none = rows["finite"] == 0
    low = np.where(none, rows["bad_value"], rows["min"])
    high = np.where(none, rows["bad_value"], rows["max"])
    value = reduced(rows, reduction)
    count = rows["finite"] + rows["bad"]
    middle = _means(rows)
    worst = np.where(high - middle >= middle - low, rows["high_rank"], rows["low_rank"])
    alone = (count < 2) | (worst < 0) | none
    return PointsUpdate(
        step=rows["step"].tolist(),
        epoch=[None if epoch == NO_EPOCH else epoch for epoch in rows["epoch"].tolist()],
        time=rows["time"].tolist(),
        mean=_numbers(value),
        min=_numbers(low),
        max=_numbers(high),
        count=count.tolist(),
        worst=[None if lonely else rank for rank, lonely in zip(worst.tolist(), alone.tolist(), strict=True)],
    )


def _numbers(values: Array) -> list[Number]:
    listed: list[Number] = values.tolist()
    return listed if np.isfinite(values).all() else to_json_numbers(values.tolist())
