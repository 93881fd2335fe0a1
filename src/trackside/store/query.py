"""Chart queries: one series over any ranks, reduced to a bounded number of entries with extremes kept."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import TypeVar

import duckdb
import msgspec
import numpy as np

from trackside.errors import StoreError
from trackside.store.catalog import readable
from trackside.store.cold import ColdRows, SeriesQuery
from trackside.store.database import connect
from trackside.store.disk import DiskThreads
from trackside.store.hot import Snapshot
from trackside.store.reduction import (
    ROW,
    Array,
    Columns,
    Grid,
    axis_of,
    empty_rows,
    fold,
    fold_rows,
    join,
    pick,
    unite,
    values_of,
)
from trackside.wire.baked import BakedSeries
from trackside.wire.columns import NO_EPOCH
from trackside.wire.documents import Number, SeriesAnswer
from trackside.wire.values import to_json_number, to_json_numbers

log = logging.getLogger("trackside.store")

T = TypeVar("T")

MAX_POINTS = 20_000
MAX_MARKS = 1000
EXACT_ROWS = 200_000
"""Up to this many rows are taken out of Parquet and folded by their own x; more are put into buckets inside DuckDB."""
ATTEMPTS = 5


class Reduced:
    """What a query found: one entry an x or a bucket, marks of non-finite values, how many points it stands for."""

    def __init__(self, table: Columns, *, is_decimated: bool, marks: list[tuple[float, float]]) -> None:
        by_x = np.argsort(table["x_min"], kind="stable")
        self.table = {name: table[name][by_x] for name in table if len(table[name]) == len(by_x)}
        self.is_decimated = is_decimated
        self.marks = marks
        self.total = int(table["count"].sum())


class SeriesReader:
    """Answers chart queries from hot rows and Parquet as one truth.

    Threads: any; queries run in two threads of its own, each with its own cursor.
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self.unreadable: frozenset[Path] = frozenset()
        """Files of points that were found damaged; what they hold is missing from the answers."""
        self._snapshot = snapshot
        self._disk = DiskThreads("trackside-read", 2)
        self._database: duckdb.DuckDBPyConnection | None = None
        self._opening = threading.Lock()
        self._local = threading.local()
        self._cold = ColdRows()

    async def series(self, query: SeriesQuery) -> SeriesAnswer:
        """Answer one query. Raises: StoreError; DiskSilentError when the disk does not answer."""
        return await self._disk.ask(lambda: self.series_now(query))

    async def baked(self, queries: list[SeriesQuery]) -> list[BakedSeries]:
        """Answer many for a report; those without points are left out. Raises: as `series` does."""
        found = [await self._disk.ask(partial(self.baked_now, query)) for query in queries]
        return [series for series in found if series.step]

    async def ask(self, work: Callable[[], T]) -> T:
        """What something else reads from the same disk. Raises: as `work` does; DiskSilentError."""
        return await self._disk.ask(work)

    def series_now(self, query: SeriesQuery) -> SeriesAnswer:
        """The same in the caller's thread. Blocks: for the query. Raises: StoreError."""
        found = self._reduce(query)
        shift = query.origin if query.x == "relative" else 0
        value, low, high = values_of(found.table, query.reduction)
        return SeriesAnswer(
            metric=query.metric,
            path=query.path,
            x=_numbers(found.table["x_min"] - shift),
            mean=_numbers(value),
            min=_numbers(low),
            max=_numbers(high),
            count=found.table["count"].tolist(),
            total_points=found.total,
            reduction=query.reduction,
            std=[None if isnan(one) else one for one in found.table["std"].tolist()] if "std" in found.table else [],
            x_kind=query.x,
            decimated=found.is_decimated,
            non_finite=[(x - shift, str(to_json_number(value))) for x, value in found.marks],
        )

    def baked_now(self, query: SeriesQuery) -> BakedSeries:
        """One metric for a report, with every x axis. Blocks: for the query. Raises: StoreError."""
        found = self._reduce(msgspec.structs.replace(query, all_axes=True))
        table = found.table
        value, low, high = values_of(table, query.reduction)
        return BakedSeries(
            metric=query.metric,
            path=query.path,
            step=table["step"].tolist(),
            epoch=[None if epoch == NO_EPOCH else epoch for epoch in table["epoch"].tolist()],
            time=np.round(table["time"], 3).tolist(),
            mean=_numbers(value),
            min=_numbers(low),
            max=_numbers(high),
            count=table["count"].tolist(),
            total_points=found.total,
            reduction=query.reduction,
            non_finite=[(x, str(to_json_number(value))) for x, value in found.marks],
        )

    def close(self) -> None:
        """Let everything go, unless the disk holds on to it. Idempotent. Blocks: up to a second, for running queries."""
        if self._disk.close() and self._database is not None:
            self._database.close()  # it waits for its own threads

    def _open(self) -> duckdb.DuckDBPyConnection:
        """The database; made with the first question that needs it, which few runs without a page have."""
        with self._opening:
            if self._database is None:
                self._database = connect(threads=2, memory_mb=200)
            return self._database

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._local, "cursor", None)
        if cursor is None:
            cursor = self._local.cursor = self._open().cursor()
        return cursor

    def _reduce(self, query: SeriesQuery) -> Reduced:
        """Fold the rows of one moment; once more when a merge replaced a file in between, or without a damaged one."""
        for _attempt in range(ATTEMPTS):
            snapshot = self._snapshot()
            if self.unreadable:
                snapshot = msgspec.structs.replace(
                    snapshot, files=tuple(path for path in snapshot.files if path not in self.unreadable)
                )
            try:
                return self._reduce_once(snapshot, query)
            except duckdb.Error as error:
                failure = error
                self._local.cursor = None
                self._leave_out_damaged(snapshot.files)
        raise StoreError(f"the points of {query.metric!r} cannot be read: {str(failure).splitlines()[0]}") from failure

    def _leave_out_damaged(self, files: tuple[Path, ...]) -> None:
        for path in readable(files, throughout=True)[1]:
            if path.exists():  # else a merge has replaced it
                self.unreadable |= {path}
                log.warning("%s is damaged; the charts and the report go without what it holds", path)

    def _reduce_once(self, snapshot: Snapshot, query: SeriesQuery) -> Reduced:
        points = max(1, min(query.points, MAX_POINTS))
        in_steps = query.reduction in ("sum", "last")
        view = self._cold.look(self._cursor(), snapshot.files, query)
        hot = _standing(_hot_rows(snapshot, query), query)
        cuts = view.cuts(hot)
        hot = _within(cuts.apply(hot), query)
        if view.count <= EXACT_ROWS:
            rows = join([view.rows(cuts), hot])
            table, is_decimated = fold_rows(rows, query.x, points, in_steps=in_steps)
            return Reduced(table, is_decimated=is_decimated, marks=_marks(rows, query))
        low, high = view.bounds(axis_of(hot, query.x))
        grid = Grid.cover(low, high, points, is_whole=query.axis_is_whole)
        along = axis_of(hot, query.x)
        table = unite(
            [
                view.table(grid, cuts),
                fold(hot, grid.bucket(along), along, in_steps=in_steps),
            ],
            by_steps=query.reduction == "sum",
        )
        marks = [*view.marks(cuts, MAX_MARKS), *_marks(hot, query)] if (table["finite"] < table["count"]).any() else []
        return Reduced(table, is_decimated=bool((table["x_min"] < table["x_max"]).any()), marks=marks[:MAX_MARKS])


def _hot_rows(snapshot: Snapshot, query: SeriesQuery) -> Columns:
    """Rows in memory of the query's metric and ranks."""
    ids = [key for key, name in snapshot.metrics.items() if name == query.metric]
    ranks = None if query.ranks is None else np.array(sorted(query.ranks), np.int32)
    parts = [empty_rows()]
    for chunk in snapshot.chunks if ids else ():
        keep = chunk.metric == ids[0]
        if ranks is not None and keep.any():
            keep &= np.isin(chunk.rank, ranks)
        at = np.flatnonzero(keep)  # few of many: places are quicker than a mask for each column
        if len(at):
            parts.append({name: getattr(chunk, name)[at] for name in ROW})
    return join(parts)


def _standing(rows: Columns, query: SeriesQuery) -> Columns:
    """Without what later generations train again, be it that they have not told this metric yet."""
    for generation, step in query.superseded:
        rows = pick(rows, (rows["generation"] >= generation) | (rows["step"] < step))
    return rows


def _within(rows: Columns, query: SeriesQuery) -> Columns:
    along = axis_of(rows, query.x)
    low, high = query.range
    keep = (along >= low) & (along <= high)
    keep &= rows["epoch"] != NO_EPOCH if query.x == "epoch" else np.isfinite(along)
    return pick(rows, keep)


def _marks(rows: Columns, query: SeriesQuery) -> list[tuple[float, float]]:
    bad = np.flatnonzero(~np.isfinite(rows["value"]))
    along = axis_of(rows, query.x)[bad]
    order = np.argsort(along, kind="stable")[:MAX_MARKS]
    return list(zip(along[order].tolist(), rows["value"][bad][order].tolist(), strict=True))


def _numbers(values: Array) -> list[Number]:
    listed: list[Number] = values.tolist()
    return listed if np.isfinite(values).all() else to_json_numbers(values.tolist())
