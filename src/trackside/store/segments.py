"""Rows to sorted Parquet files that appear by rename."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from trackside.store.database import file_list, quoted
from trackside.store.folder import TEMPORARY, RunFolder, sync_path
from trackside.store.numbering import parquet_name, span_of
from trackside.wire.columns import NO_EPOCH, PointBatch

TIME_GRID = 1024.0
"""Times are kept to 1/1024 s, a binary fraction, which packs well."""
OPTIONS = (
    "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 6, PARQUET_VERSION V2, ROW_GROUP_SIZE 262144, "
    "DICTIONARY_SIZE_LIMIT 4000"
)
"""Measured in benchmarks/store_ingest.py: V2 splits the bytes of doubles; a small dictionary limit keeps steps and times,
which hardly repeat within a series, out of dictionaries."""
POINT_ORDER = "series, rank, generation, step, time"
RESOURCE_ORDER = "path, time"

Array = npt.NDArray[Any]
Names = tuple[dict[int, str], dict[tuple[int, int], str]]
"""Metric names by id, and paths by (rank, generation)."""


def write_segment(
    database: duckdb.DuckDBPyConnection, folder: RunFolder, number: int, chunks: Sequence[PointBatch], names: Names
) -> Path:
    """Write rows as `points/<number>.parquet`, sorted by series name, rank, generation, step.

    Blocks: for the disk. Raises: OSError, duckdb.Error.
    """
    path = folder.points / parquet_name(number, number)
    register_rows(database, "segment_rows", chunks, names)
    try:
        return copy_whole(database, folder, path, points_query("segment_rows"))
    finally:
        database.unregister("segment_rows")


def register_rows(database: duckdb.DuckDBPyConnection, name: str, chunks: Sequence[PointBatch], names: Names) -> None:
    """Make rows known to `points_query`, in the order of a segment."""
    metrics, paths = names
    metric = _column(chunks, "metric")
    metrics = metrics | {key: f"unknown {key}" for key in np.unique(metric).tolist() if key not in metrics}
    places = sorted(metrics, key=lambda key: metrics[key])
    keys = np.array(places, np.int64)
    by_id = np.argsort(keys)
    place = by_id[np.searchsorted(keys[by_id], metric)].astype(np.int32)
    rank, generation = _column(chunks, "rank"), _column(chunks, "generation")
    order = _order(place, rank, generation, _column(chunks, "step"))
    pair = _pair(rank, generation)[order]
    pairs = np.array(sorted(paths), np.int64).reshape(-1, 2)
    columns = {
        "series_at": place[order] + np.int32(1),
        "path_at": _positions(_pair(pairs[:, 0], pairs[:, 1]), pair),
        "rank": rank[order],
        "generation": generation[order],
        "epoch": _column(chunks, "epoch")[order],
        "step": _column(chunks, "step")[order],
        "time": np.rint(_column(chunks, "time")[order] * TIME_GRID) / TIME_GRID,
        "value": _column(chunks, "value")[order],
    }
    database.execute("SET VARIABLE series_names = ?::VARCHAR[]", [[metrics[key] for key in places]])
    database.execute("SET VARIABLE rank_paths = ?::VARCHAR[]", [[paths[key] for key in sorted(paths)]])
    database.register(name, columns)


def points_query(rows: str) -> str:
    """SQL that gives registered rows the columns of `points`.

    Names are looked up in lists: a join would lose the order, and sorting again takes three times the memory. DuckDB
    reads a NaN of a numpy column as NULL; here it is a value and becomes NaN again.
    """
    return f"""
        SELECT list_extract(getvariable('series_names'), series_at) AS series,
               list_extract(getvariable('rank_paths'), path_at) AS path,
               rank, generation, nullif(epoch, {NO_EPOCH}) AS epoch, step,
               coalesce(time, 'NaN'::DOUBLE) AS time, coalesce(value, 'NaN'::DOUBLE) AS value
        FROM {rows}
    """


def merge_files(database: duckdb.DuckDBPyConnection, folder: RunFolder, files: list[Path], order: str) -> Path:
    """Write neighbouring files as one beside them. The caller removes them once no reader is told of them.

    Blocks: for the disk. Raises: OSError, duckdb.Error.
    """
    path = files[0].with_name(parquet_name(span_of(files[0])[0], span_of(files[-1])[1]))
    query = f"SELECT * FROM read_parquet({file_list(files)}, union_by_name=true) ORDER BY {order}"
    return copy_whole(database, folder, path, query)


def copy_whole(database: duckdb.DuckDBPyConnection, folder: RunFolder, path: Path, query: str) -> Path:
    """Write a query's rows to a Parquet file that is whole or not there."""
    temporary = folder.journal / f"{path.parent.name}-{path.name}{TEMPORARY}"
    options = f"{OPTIONS}, KV_METADATA {{trackside_schema: '1'}}"
    try:
        database.execute(f"COPY ({query}) TO {quoted(temporary)} ({options})")
        sync_path(temporary)
        temporary.replace(path)
        sync_path(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def plan_merge(files: list[tuple[Path, int]], *, most_files: int, small_rows: int, most_rows: int) -> list[Path]:
    """Neighbouring files to merge next; none when there are few enough, or nothing can be won.

    Args:
        files: every file with its rows, oldest first.
        most_files: more than these are too many.
        small_rows: files of more rows than this stay as they are; sorting them again would win nothing.
        most_rows: a merged file holds at most so many rows.
    """
    if len(files) <= most_files:
        return []
    best: list[Path] = []
    for start in range(len(files)):
        taken, rows = [], 0
        for path, count in files[start:]:
            rows += count
            if count > small_rows or rows > most_rows:
                break
            taken.append(path)
        if len(taken) > len(best):
            best = taken
    return best if len(best) > 1 else []


def _column(chunks: Sequence[PointBatch], name: str) -> Array:
    """One column of all chunks; together they would be a copy of everything."""
    return np.concatenate([getattr(chunk, name) for chunk in chunks])


def _order(place: Array, rank: Array, generation: Array, step: Array) -> Array:
    """Where each row goes: by series name, rank, generation, step. Rows of a rank mostly come in their order."""
    if not len(place):
        return np.empty(0, np.int64)
    ranks, generations = int(rank.max()) + 1, int(generation.max()) + 1
    size = (int(place.max()) + 1) * ranks * generations
    if size > 2**62 or rank.min() < 0 or generation.min() < 0:
        return np.lexsort((step, generation, rank, place))
    key = (place.astype(np.int64) * ranks + rank) * generations + generation
    key = key.astype(np.uint16) if size <= 65_536 else key  # 16 bits sort fastest
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    steps_back = np.diff(step[order]) < 0
    return np.lexsort((step, key)) if (steps_back & (ordered[1:] == ordered[:-1])).any() else order


def _pair(rank: Array, generation: Array) -> Array:
    pair: Array = (rank.astype(np.int64) << 32) | generation.astype(np.int64)
    return pair


def _positions(known: Array, asked: Array) -> Array:
    """Place of each asked value among known ones, from 1; 0 for what is not known."""
    if not len(known):
        return np.zeros(len(asked), np.int32)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[at] == asked, at + 1, 0).astype(np.int32)
