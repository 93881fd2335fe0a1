"""A points file's long series in short, written beside it: a chart of everything then need not read everything.

`outline/<name of the points file>` holds, for each long series, the same folds that a chart is made of, over buckets whose
width is a power of two: they add up to those of any coarser grid. It is a copy of what the points say: without it, or when
it cannot be read, the points themselves are read.
"""

import contextlib
import threading
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from trackside.store.database import quoted
from trackside.store.folder import RunFolder
from trackside.store.reduction import Array, Columns, Grid
from trackside.wire.columns import PointBatch

VERSION = 1
MOST_BUCKETS = 2048
"""Of a series; a chart asks for about a thousand of the whole run."""
ROWS_A_BUCKET = 512
"""At least so many rows stand behind a bucket, or the outline would be no shorter than what it stands for."""
LEAST_ROWS = 8192
"""Of a series in one file; less is read as quickly."""
COLUMNS = ("key", "x_min", "x_max", "total", "low", "high", "count", "finite", "bad")
Axis = str
"""`step` or `time`."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """How far a series reaches on an axis, and how many rows have a place there."""

    count: int
    low: int | float
    high: int | float


class Fold(msgspec.Struct, frozen=True, array_like=True):
    """A series on one axis: buckets of one width, their keys counted from 0 of the axis."""

    width: float
    columns: dict[str, tuple[str, bytes]]
    """Type and bytes of each column."""


class SeriesOutline(msgspec.Struct, frozen=True):
    """One series of one file."""

    ranks: tuple[int, int]
    """Lowest and highest that has values."""
    generations: tuple[int, int]
    bad: int
    """Values that are not finite."""
    spans: dict[Axis, Span]
    folds: dict[Axis, Fold]

    def fold(self, axis: Axis, widest: float) -> Columns | None:
        """Its buckets, or None when there are none so narrow."""
        fold = self.folds.get(axis)
        if fold is None or fold.width > widest:
            return None
        return {name: np.frombuffer(zlib.decompress(data), kind) for name, (kind, data) in fold.columns.items()}

    def width(self, axis: Axis) -> float:
        """Of its buckets."""
        return self.folds[axis].width


class FileOutline(msgspec.Struct, frozen=True):
    """All long series of one points file."""

    version: int
    size: int
    """Bytes of the points file that was looked at."""
    series: dict[str, SeriesOutline]


def outline_path(points: Path) -> Path:
    """Where the outline of a points file lies."""
    return points.parent.parent / "outline" / f"{points.stem}.bin"


def may_be_long(rows: Sequence[PointBatch]) -> bool:
    """Whether any series among these rows, which become one points file, is long enough for an outline."""
    counts = np.bincount(np.concatenate([batch.metric for batch in rows]))
    return int(counts.max()) >= LEAST_ROWS


def write_outline(database: duckdb.DuckDBPyConnection, folder: RunFolder, points: Path) -> None:
    """Write the outline of a points file with long series; a disk that refuses leaves none.

    Blocks: for the disk.
    """
    with contextlib.suppress(OSError, duckdb.Error):
        if series := outline_of(database, points):
            outline = FileOutline(VERSION, points.stat().st_size, series)
            folder.outline.mkdir(exist_ok=True)
            folder.write_whole(outline_path(points), msgspec.msgpack.encode(outline))


def outline_of(database: duckdb.DuckDBPyConnection, points: Path) -> dict[str, SeriesOutline]:
    """The long series of a points file. Blocks: for the disk. Raises: duckdb.Error."""
    found = _fetch(
        database,
        "SELECT series, min(rank) AS rank, max(rank) AS last_rank, min(generation) AS generation, "
        "max(generation) AS last_generation, count(*) FILTER (NOT isfinite(value)) AS bad, count(*) AS count_step, "
        "min(step) AS low_step, max(step) AS high_step, count(*) FILTER (isfinite(time)) AS count_time, "
        "min(time) FILTER (isfinite(time)) AS low_time, max(time) FILTER (isfinite(time)) AS high_time "
        f"FROM read_parquet({quoted(points)}) GROUP BY series HAVING count(*) >= {LEAST_ROWS}",
    )
    rows = [
        dict(zip(found, row, strict=True)) for row in zip(*(column.tolist() for column in found.values()), strict=True)
    ]
    folds: dict[Axis, dict[str, Fold]] = {axis: _folds(database, points, axis, rows) for axis in ("step", "time")}
    return {
        row["series"]: SeriesOutline(
            ranks=(row["rank"], row["last_rank"]),
            generations=(row["generation"], row["last_generation"]),
            bad=row["bad"],
            spans={axis: _span(row, axis) for axis in folds if row[f"count_{axis}"]},
            folds={axis: known[row["series"]] for axis, known in folds.items() if row["series"] in known},
        )
        for row in rows
    }


class Outlines:
    """Outlines that were read, by points file.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, FileOutline] = {}

    def of(self, points: Path, series: str) -> SeriesOutline | None:
        """A series of a points file; None when its points must be read. Blocks: for the disk."""
        with self._lock:
            outline = self._known.get(points)
        if outline is None:
            outline = _read(points)
            if outline is None:
                return None
            with self._lock:
                self._known[points] = outline
        return outline.series.get(series)

    def keep(self, files: tuple[Path, ...]) -> None:
        """Forget those of files that are no more."""
        with self._lock:
            if len(self._known) > 2 * len(files):
                self._known = {path: outline for path, outline in self._known.items() if path in files}


def coarsened(columns: Columns, width: float, grid: Grid) -> Columns:
    """Buckets of an outline as rows of a table over a coarser grid; several may have one key."""
    whole = columns["key"].astype(np.int64) // np.int64(grid.width / width)
    table = {**columns, "key": whole - np.int64(grid.origin / grid.width)}
    table |= dict.fromkeys(("step", "epoch", "time"), columns["x_min"])
    return {**table, "steps": np.ones(len(whole), np.int64), "last": columns["low"]}


def _read(points: Path) -> FileOutline | None:
    try:
        outline = msgspec.msgpack.decode(outline_path(points).read_bytes(), type=FileOutline)
        is_of_it = outline.version == VERSION and outline.size == points.stat().st_size
    except (OSError, msgspec.DecodeError):
        return None
    return outline if is_of_it else None


def _span(row: dict[str, Any], axis: Axis) -> Span:
    return Span(row[f"count_{axis}"], row[f"low_{axis}"], row[f"high_{axis}"])


def _folds(
    database: duckdb.DuckDBPyConnection, points: Path, axis: Axis, rows: list[dict[str, Any]]
) -> dict[str, Fold]:
    """Every series' buckets on one axis, where they are much fewer than its rows."""
    widths = {row["series"]: _width(_span(row, axis), axis) for row in rows if row[f"count_{axis}"]}
    if not widths:
        return {}
    known = {"series": np.array([*widths], object), "width": np.array([*widths.values()])}
    database.register("outline_widths", known)
    careful = " FILTER (isfinite(value))" if any(row["bad"] for row in rows) else ""
    bad = "sum(value) FILTER (NOT isfinite(value))" if careful else "0.0::DOUBLE"
    try:
        found = _fetch(
            database,
            f"SELECT series, floor({axis} / width)::BIGINT AS key, min({axis}) AS x_min, max({axis}) AS x_max, "
            f"sum(value){careful} AS total, min(value){careful} AS low, max(value){careful} AS high, "
            f"count(*) AS count, count(*){careful} AS finite, {bad} AS bad "
            f"FROM read_parquet({quoted(points)}) JOIN outline_widths USING (series) "
            f"WHERE isfinite({axis}::DOUBLE) GROUP BY series, key ORDER BY series, key",
        )
    finally:
        database.unregister("outline_widths")
    series = found["series"]
    starts = [*np.flatnonzero(np.r_[True, series[1:] != series[:-1]]).tolist(), len(series)]
    return {
        series[start]: Fold(widths[series[start]], {name: _packed(found[name][start:end]) for name in COLUMNS})
        for start, end in pairwise(starts)
        if end > start
    }


def _width(span: Span, axis: Axis) -> float:
    buckets = max(1, min(MOST_BUCKETS, span.count // ROWS_A_BUCKET))
    return Grid.cover(span.low, span.high, buckets, is_whole=axis == "step").width


def _packed(column: Array) -> tuple[str, bytes]:
    return column.dtype.str, zlib.compress(np.ascontiguousarray(column).tobytes(), 1)


_ABSENT = {"low": np.inf, "high": -np.inf}


def _fetch(database: duckdb.DuckDBPyConnection, sql: str) -> Columns:
    """A query's columns; a sum of nothing is 0, its lowest value is above all."""
    found = database.execute(sql).fetchnumpy()
    return {name: np.ma.filled(column, _ABSENT.get(name, 0)) for name, column in found.items()}
