"""Chart queries: one series over any ranks, reduced to a bounded number of entries with extremes kept."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt

from trackside.errors import StoreError
from trackside.store.database import connect, file_list
from trackside.store.hot import Snapshot
from trackside.wire.columns import NO_EPOCH
from trackside.wire.documents import BakedSeries, Number, SeriesAnswer, XAxis
from trackside.wire.messages import Reduction
from trackside.wire.values import to_json_number, to_json_numbers

MAX_POINTS = 20_000
MAX_MARKS = 1000
EXACT_ROWS = 100_000
"""Up to this many rows are grouped by their own x first; more are put into buckets at once."""

Array = npt.NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """One question."""

    metric: str
    path: str
    ranks: frozenset[int] | None
    """Ranks below the path; None for all."""
    x: XAxis = "step"
    start: float | None = None
    end: float | None = None
    points: int = 1000
    reduction: Reduction = "mean"
    origin: float = 0.0
    """Where `relative` begins, UTC epoch seconds."""
    metric_id: int | None = None
    """Id of the metric among hot rows; None when it has none there."""


class SeriesReader:
    """Answers chart queries from hot rows and Parquet as one truth.

    Threads: any; queries run in two threads of its own, each with its own cursor.
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="trackside-read")
        self._database = connect(threads=1, memory_mb=256)
        self._local = threading.local()

    async def series(self, query: SeriesQuery) -> SeriesAnswer:
        """Answer one query in the pool."""
        return await self._in_pool(lambda: self.series_now(query))

    async def baked(self, queries: list[SeriesQuery]) -> list[BakedSeries]:
        """Answer many for a report."""
        return await self._in_pool(lambda: [self.baked_now(query) for query in queries])

    def series_now(self, query: SeriesQuery) -> SeriesAnswer:
        """The same in the caller's thread. Blocks: for the query."""
        rows = self._rows(query)
        return answer(query, rows)

    def baked_now(self, query: SeriesQuery) -> BakedSeries:
        """One metric for a report, with every x axis. Blocks: for the query."""
        rows = self._rows(query)
        table = reduce_rows(rows, _axis(rows, query), query.points)
        return BakedSeries(
            metric=query.metric,
            path=query.path,
            step=table["step"].astype(np.int64).tolist(),
            epoch=[None if epoch == NO_EPOCH else int(epoch) for epoch in table["epoch"].tolist()],
            time=np.round(table["time"], 3).tolist(),
            mean=_numbers(value_of(table, query.reduction)),
            min=_numbers(table["min"]),
            max=_numbers(table["max"]),
            count=table["count"].tolist(),
            total_points=len(rows["value"]),
            reduction=query.reduction,
            non_finite=_marks(rows, rows["step"].astype(np.float64)),
        )

    def close(self) -> None:
        """Idempotent; running queries end first."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._database.close()

    async def _in_pool(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._local, "cursor", None)
        if cursor is None:
            cursor = self._local.cursor = self._database.cursor()
        return cursor

    def _rows(self, query: SeriesQuery) -> dict[str, Array]:
        """The query's rows, ascending by step, of the generation that counts."""
        for attempt in range(3):
            snapshot = self._snapshot()
            try:
                cold = self._cold_rows(snapshot, query)
            except duckdb.IOException:
                if attempt == 2:
                    raise
                continue  # a merge has just replaced a file of this snapshot
            return _settle_generations(_join(cold, _hot_rows(snapshot, query)), query)
        raise StoreError("the run folder changes faster than it can be read")

    def _cold_rows(self, snapshot: Snapshot, query: SeriesQuery) -> dict[str, Array]:
        if not snapshot.files:
            return {name: np.empty(0) for name in _COLUMNS}
        where, values = ["series = ?"], [query.metric]
        if query.ranks is not None:
            where.append(f"rank IN ({', '.join(str(int(rank)) for rank in query.ranks) or 'NULL'})")
        if query.x == "step":
            where += [f"step >= {int(np.floor(query.start))}"] if query.start is not None else []
            where += [f"step <= {int(np.ceil(query.end))}"] if query.end is not None else []
        cursor = self._cursor().execute(
            f"SELECT rank, generation, coalesce(epoch, {NO_EPOCH}) AS epoch, step, time, value "
            f"FROM read_parquet({file_list(snapshot.files)}) WHERE {' AND '.join(where)}",
            values,
        )
        return dict(cursor.fetchnumpy())


_COLUMNS = ("rank", "generation", "epoch", "step", "time", "value")


def _hot_rows(snapshot: Snapshot, query: SeriesQuery) -> dict[str, Array]:
    hot = snapshot.hot
    metric = query.metric_id
    if metric is None:
        metric = next((key for key, name in snapshot.metrics.items() if name == query.metric), -1)
    keep = hot.metric == metric
    if query.ranks is not None and keep.any():
        keep &= np.isin(hot.rank, np.array(sorted(query.ranks), np.int32))
    return {name: getattr(hot, name)[keep] for name in _COLUMNS}


def _join(cold: dict[str, Array], hot: dict[str, Array]) -> dict[str, Array]:
    if not len(cold["step"]):
        return hot
    if not len(hot["step"]):
        return {name: np.asarray(column) for name, column in cold.items()}
    return {name: np.concatenate([np.asarray(cold[name]), hot[name]]) for name in _COLUMNS}


def _settle_generations(rows: dict[str, Array], query: SeriesQuery) -> dict[str, Array]:
    """Where a later generation logged the same steps again, its values stand."""
    generation = rows["generation"]
    if len(generation) and generation.min() != generation.max():
        keep = np.ones(len(generation), bool)
        for later in np.unique(generation)[1:]:
            mine = generation == later
            keep &= ~((generation < later) & (rows["step"] >= rows["step"][mine].min()))
        rows = {name: column[keep] for name, column in rows.items()}
    if query.start is None and query.end is None:
        return rows
    x = _axis(rows, query)
    low = -np.inf if query.start is None else query.start
    high = np.inf if query.end is None else query.end
    keep = (x >= low) & (x <= high)
    return rows if keep.all() else {name: column[keep] for name, column in rows.items()}


def _axis(rows: dict[str, Array], query: SeriesQuery) -> Array:
    if query.x == "step":
        return rows["step"]
    if query.x == "epoch":
        return rows["epoch"]
    return rows["time"] - query.origin if query.x == "relative" else rows["time"]


def answer(query: SeriesQuery, rows: dict[str, Array]) -> SeriesAnswer:
    """Rows as the document."""
    if query.x == "epoch":
        known = rows["epoch"] != NO_EPOCH
        rows = {name: column[known] for name, column in rows.items()}
    x = _axis(rows, query)
    table = reduce_rows(rows, x, min(query.points, MAX_POINTS), by_time=query.x in ("time", "relative"))
    return SeriesAnswer(
        metric=query.metric,
        path=query.path,
        x=table["x"].tolist(),
        mean=_numbers(value_of(table, query.reduction)),
        min=_numbers(table["min"]),
        max=_numbers(table["max"]),
        count=table["count"].tolist(),
        total_points=len(rows["value"]),
        reduction=query.reduction,
        x_kind=query.x,
        decimated=bool(table["decimated"].any()),
        non_finite=_marks(rows, x),
    )


def reduce_rows(rows: dict[str, Array], x: Array, points: int, *, by_time: bool = False) -> dict[str, Array]:
    """Group rows by x (by step when x is a time), or into `points` buckets when there are more."""
    if not len(x):
        return {name: np.empty(0) for name in _TABLE} | {"count": np.empty(0, np.int64), "decimated": np.zeros(1, bool)}
    if len(x) <= max(EXACT_ROWS, points):
        key = rows["step"] if by_time else x
        order = np.argsort(key, kind="stable")
        sorted_key = np.asarray(key)[order]
        starts = np.flatnonzero(np.r_[True, sorted_key[1:] != sorted_key[:-1]])
        if len(starts) <= points:
            return _grouped(rows, x, order, starts, decimated=False)
    low, high = float(x.min()), float(x.max())
    width = (high - low) / points or 1.0
    bucket = np.minimum(((x - low) / width).astype(np.int64), points - 1)
    order = np.argsort(bucket, kind="stable") if (np.diff(bucket) < 0).any() else np.arange(len(bucket))
    ordered = bucket[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return _grouped(rows, x, order, starts, decimated=True)


_TABLE = ("x", "step", "epoch", "time", "sum", "min", "max", "finite", "bad_value", "last")


def _grouped(rows: dict[str, Array], x: Array, order: Array, starts: Array, *, decimated: bool) -> dict[str, Array]:
    value = rows["value"][order]
    ends = np.r_[starts[1:], len(value)]
    finite = np.isfinite(value)
    all_finite = bool(finite.all())
    clean = value if all_finite else np.where(finite, value, 0.0)
    count = ends - starts
    known = count if all_finite else np.add.reduceat(finite.astype(np.int64), starts)
    bad = np.zeros(len(starts))
    if not all_finite:
        with np.errstate(invalid="ignore"):
            bad = np.add.reduceat(np.where(finite, 0.0, value), starts)
    low = np.minimum.reduceat(value if all_finite else np.where(finite, value, np.inf), starts)
    high = np.maximum.reduceat(value if all_finite else np.where(finite, value, -np.inf), starts)
    none = known == 0
    with np.errstate(over="ignore"):
        total = np.add.reduceat(clean, starts)
    return {
        "x": np.minimum.reduceat(np.asarray(x)[order], starts),
        "step": np.minimum.reduceat(rows["step"][order], starts),
        "epoch": rows["epoch"][order][ends - 1],
        "time": np.minimum.reduceat(rows["time"][order], starts),
        "sum": total,
        "min": np.where(none, bad, low),
        "max": np.where(none, bad, high),
        "finite": known,
        "bad_value": bad,
        "last": value[ends - 1],
        "count": count,
        "decimated": np.array([decimated]),
    }


def value_of(table: dict[str, Array], reduction: Reduction) -> Array:
    """The cohort value of each entry; a bucket of several steps shows its mean for `sum` and `last` alike."""
    mean = table["sum"] / np.maximum(table["finite"], 1)
    if reduction in ("min", "max"):
        mean = table[reduction]
    elif reduction == "last":
        return table["last"]
    elif reduction == "sum" and not table["decimated"].any():
        mean = table["sum"]
    return np.where(table["finite"] > 0, mean, table["bad_value"])


def _marks(rows: dict[str, Array], x: Array) -> list[tuple[Number, str]]:
    bad = np.flatnonzero(~np.isfinite(rows["value"]))[:MAX_MARKS]
    return [(np.asarray(x)[at].item(), str(to_json_number(float(rows["value"][at])))) for at in bad]


def _numbers(values: Array) -> list[Number]:
    listed: list[Number] = np.asarray(values, np.float64).tolist()
    return listed if np.isfinite(values).all() else to_json_numbers(np.asarray(values, np.float64).tolist())
