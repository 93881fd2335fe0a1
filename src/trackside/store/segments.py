"""Rows to sorted Parquet files that appear by rename."""

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

Columns = dict[str, npt.NDArray[Any]]


def sorted_rows(batch: PointBatch, metrics: dict[int, str]) -> Columns:
    """The rows in the order of a segment: by series name, rank, generation, step."""
    key = _group_key(batch, metrics)
    order = np.argsort(key, kind="stable")
    step, ordered = batch.step[order], key[order]
    if len(order) and ((np.diff(step) < 0) & (np.diff(ordered.astype(np.int64)) == 0)).any():
        order = np.lexsort((batch.step, key))
    return {
        "place": np.arange(len(order), dtype=np.int32),
        "metric": batch.metric[order],
        "rank": batch.rank[order],
        "generation": batch.generation[order],
        "epoch": batch.epoch[order],
        "step": batch.step[order],
        "time": np.rint(batch.time[order] * TIME_GRID) / TIME_GRID,
        "value": batch.value[order],
    }


def write_segment(
    database: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    number: int,
    batch: PointBatch,
    names: tuple[dict[int, str], dict[tuple[int, int], str]],
) -> Path:
    """Write rows as `points/<number>.parquet`; `names` are metric names by id, and paths by (rank, generation).

    Blocks: for the disk. Raises: OSError, duckdb.Error.
    """
    metrics, paths = names
    database.register("segment_rows", sorted_rows(batch, metrics))
    _register_names(database, metrics, paths)
    try:
        path = folder.points / parquet_name(number, number)
        return copy_whole(database, folder, path, points_query("segment_rows") + "ORDER BY place")
    finally:
        for name in ("segment_rows", "metric_names", "rank_paths"):
            database.unregister(name)


def points_query(rows: str) -> str:
    """SQL that gives registered rows the columns of `points`; their order, which joins lose, is in `place`.

    DuckDB reads a NaN of a numpy column as NULL; here it is a value and becomes NaN again.
    """
    return f"""
        SELECT coalesce(m.name, 'unknown ' || metric) AS series, p.path AS path, rank, generation,
               nullif(epoch, {NO_EPOCH}) AS epoch, step,
               coalesce(time, 'NaN'::DOUBLE) AS time, coalesce(value, 'NaN'::DOUBLE) AS value
        FROM {rows} LEFT JOIN metric_names m ON m.id = metric
        LEFT JOIN rank_paths p USING (rank, generation)
    """


def register_rows(
    database: duckdb.DuckDBPyConnection,
    name: str,
    batch: PointBatch,
    metrics: dict[int, str],
    paths: dict[tuple[int, int], str],
) -> None:
    """Make rows known to `points_query`, in the order of a segment."""
    database.register(name, sorted_rows(batch, metrics))
    _register_names(database, metrics, paths)


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


def _group_key(batch: PointBatch, metrics: dict[int, str]) -> npt.NDArray[Any]:
    """One number a row that sorts by series name, rank, generation; of 16 bits where it fits, which sorts fastest."""
    place = np.zeros(max(metrics, default=0) + 2, np.int64)
    place[sorted(metrics, key=lambda metric: metrics[metric])] = np.arange(len(metrics))
    if not len(batch):
        return np.empty(0, np.uint16)
    metric = np.minimum(batch.metric, len(place) - 1)
    ranks, generations = int(batch.rank.max()) + 1, int(batch.generation.max()) + 1
    key: npt.NDArray[np.int64] = (place[metric] * ranks + batch.rank) * generations + batch.generation
    return key.astype(np.uint16) if len(place) * ranks * generations <= 65_536 else key


def _register_names(
    database: duckdb.DuckDBPyConnection, metrics: dict[int, str], paths: dict[tuple[int, int], str]
) -> None:
    database.register(
        "metric_names", {"id": np.array([*metrics], np.int32), "name": np.array([*metrics.values()], object)}
    )
    keys = np.array([*paths], np.int32).reshape(-1, 2)
    columns = {"rank": keys[:, 0].copy(), "generation": keys[:, 1].copy()}
    database.register("rank_paths", {**columns, "path": np.array([*paths.values()], object)})
