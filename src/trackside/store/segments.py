"""Hot rows to sorted Parquet. A segment appears by rename; a later one may cover earlier ones."""

from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

from trackside.store.database import connect, file_list, quoted
from trackside.store.folder import RunFolder
from trackside.store.hot import Snapshot
from trackside.wire.columns import NO_EPOCH

TIME_GRID = 1024.0
"""Times are kept to 1/1024 s, a binary fraction, which Parquet packs well."""
OPTIONS = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 6, PARQUET_VERSION V2, ROW_GROUP_SIZE 1000000"
COVERS = "covers_from"
MERGE_ROWS = 20_000_000


def write_segment(database: duckdb.DuckDBPyConnection, folder: RunFolder, number: int, snapshot: Snapshot) -> Path:
    """Write hot rows as `points/<number>.parquet`.

    Blocks: for the disk. Raises: OSError, duckdb.Error.
    """
    hot = snapshot.hot
    order = np.lexsort((hot.step, hot.generation, hot.rank, _by_name(hot.metric, snapshot.metrics)))
    rows = {
        "metric": hot.metric[order],
        "rank": hot.rank[order],
        "generation": hot.generation[order],
        "epoch": hot.epoch[order],
        "step": hot.step[order],
        "time": np.round(hot.time[order] * TIME_GRID) / TIME_GRID,
        "value": hot.value[order],
    }
    _load_names(database, snapshot)
    database.register("segment_rows", rows)
    try:
        query = f"""
            SELECT m.name AS series, p.path AS path, rank, generation,
                   nullif(epoch, {NO_EPOCH}) AS epoch, step, time, value
            FROM segment_rows JOIN metric_names m ON m.id = metric
            LEFT JOIN rank_paths p USING (rank, generation)
        """
        return _copy(database, folder, number, number, query)
    finally:
        database.unregister("segment_rows")


def merge_segments(database: duckdb.DuckDBPyConnection, folder: RunFolder, files: list[Path]) -> Path:
    """Merge segments into one that takes the place of the last; the others go afterwards.

    Blocks: for the disk. Raises: OSError, duckdb.Error.
    """
    first, last = min(map(covers_from, files)), number_of(files[-1])
    query = f"SELECT * FROM read_parquet({file_list(files)}) ORDER BY series, rank, generation, step"
    merged = _copy(database, folder, last, first, query)
    for path in files:
        if path != merged:
            path.unlink(missing_ok=True)
    return merged


def drop_covered(folder: RunFolder) -> list[Path]:
    """Finish a merge that a crash cut short: files that a later one covers go. Return what is left, oldest first."""
    files = folder.point_files()
    for later in files:
        first = covers_from(later)
        for path in files:
            if first <= number_of(path) < number_of(later):
                path.unlink(missing_ok=True)
    return folder.point_files()


def number_of(path: Path) -> int:
    """Number of the last journal file that a segment covers."""
    return int(path.stem)


def covers_from(path: Path) -> int:
    """Number of the first journal file that a segment covers."""
    query = f"SELECT value FROM parquet_kv_metadata({quoted(path)}) WHERE key = '{COVERS}'"
    found = connect().execute(query).fetchone()
    return int(bytes(found[0]).decode()) if found else number_of(path)


def _copy(database: duckdb.DuckDBPyConnection, folder: RunFolder, number: int, first: int, query: str) -> Path:
    path = folder.points / f"{number:06d}.parquet"
    temporary = folder.journal / f"points-{number:06d}.tmp"
    folder.journal.mkdir(exist_ok=True)
    options = f"{OPTIONS}, KV_METADATA {{{COVERS}: '{first}', schema_version: '1'}}"
    try:
        database.execute(f"COPY ({query}) TO {quoted(temporary)} ({options})")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _by_name(metric: npt.NDArray[np.int32], names: dict[int, str]) -> npt.NDArray[np.int64]:
    """Metric ids replaced by their place in name order."""
    place = np.zeros(max(names, default=0) + 1, np.int64)
    for position, key in enumerate(sorted(names, key=lambda key: names[key])):
        place[key] = position
    return place[metric]


def _load_names(database: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> None:
    metrics, places = snapshot.metrics, snapshot.paths
    database.register(
        "metric_names", {"id": np.array(list(metrics), np.int32), "name": np.array([*metrics.values()], object)}
    )
    keys = np.array(list(places), np.int32).reshape(-1, 2)
    database.register(
        "rank_paths", {"rank": keys[:, 0], "generation": keys[:, 1], "path": np.array([*places.values()], object)}
    )
