"""Epochs, resources and events as files that others can read, and what a Parquet file says of itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from trackside.store.database import connect, file_list, quoted
from trackside.store.folder import RunFolder
from trackside.store.numbering import parquet_name
from trackside.store.segments import RESOURCE_ORDER, copy_whole
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

_TEXT, _REAL, _WHOLE = "VARCHAR", "DOUBLE", "BIGINT"
_RESOURCE_TYPES = {
    "time": _REAL,
    "path": _TEXT,
    "host": _TEXT,
    "rank": _WHOLE,
    "cpu": _REAL,
    "memory_used": _WHOLE,
    "memory_total": _WHOLE,
    "memory_limit_source": _TEXT,
    "cpu_count": _REAL,
    "cpu_limit_source": _TEXT,
    "network_sent": _REAL,
    "network_received": _REAL,
    "disk_read": _REAL,
    "disk_written": _REAL,
    "disk_used": _WHOLE,
    "disk_total": _WHOLE,
    "gpu_util": _REAL,
    "gpu_util_peak": _REAL,
    "vram_used": _WHOLE,
    "vram_total": _WHOLE,
    "temperature": _REAL,
    "power": _REAL,
    "torch_allocated": _WHOLE,
    "torch_reserved": _WHOLE,
}
_EPOCH_TYPES = {
    "epoch": _WHOLE,
    "seconds": _REAL,
    "samples": _WHOLE,
    "batches": _WHOLE,
    "throughput": _REAL,
    "ranks": _WHOLE,
    "complete": "BOOLEAN",
    "ended_at": _REAL,
    "cpu": _REAL,
    "memory_used": _WHOLE,
    "memory_total": _WHOLE,
    "gpu": _REAL,
    "vram_used": _WHOLE,
    "vram_total": _WHOLE,
}
_POINT_TYPES = {
    "series": _TEXT,
    "path": _TEXT,
    "rank": "INTEGER",
    "generation": "INTEGER",
    "epoch": "INTEGER",
    "step": _WHOLE,
    "time": _REAL,
    "value": _REAL,
}


def event_line(record: EventRecord) -> bytes:
    """One line of events.jsonl; a later line of the same id replaces it."""
    return msgspec.json.encode(record) + b"\n"


def read_events(path: Path) -> list[EventRecord]:
    """Events by id, the last line of each; a damaged line is left out. Blocks: for the disk."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found: dict[int, EventRecord] = {}
    for line in lines:
        try:
            record = msgspec.json.decode(line, type=EventRecord)
        except msgspec.DecodeError:
            continue
        found[record.id] = record
    return [found[key] for key in sorted(found)]


def write_epochs(database: duckdb.DuckDBPyConnection, folder: RunFolder, records: list[EpochRecord]) -> None:
    """epochs.parquet: one row an epoch, its metrics as a map, and the whole record as JSON text.

    Blocks: for the disk. Raises: OSError, duckdb.Error.
    """
    records = sorted(records, key=lambda record: record.epoch)
    rows = {name: _column([getattr(record, name) for record in records], kind) for name, kind in _EPOCH_TYPES.items()}
    rows["record"] = _column([msgspec.json.encode(record).decode() for record in records], _TEXT)
    metrics = [(r.epoch, name, value) for r in records for name, value in r.metrics.items()]
    values = {
        "epoch": np.array([row[0] for row in metrics], np.int64),
        "name": np.array([row[1] for row in metrics], object),
        "known": np.array([row[2] is not None for row in metrics], bool),
        "value": np.array([float(row[2] or 0.0) for row in metrics], np.float64),
    }
    database.register("epoch_rows", rows)
    database.register("epoch_values", values)
    try:
        copy_whole(database, folder, folder.epochs, _EPOCH_QUERY.format(columns=_typed(_EPOCH_TYPES)))
    finally:
        database.unregister("epoch_rows")
        database.unregister("epoch_values")


_EPOCH_QUERY = """
    SELECT {columns}, coalesce(metrics, MAP {{}}::MAP(VARCHAR, DOUBLE)) AS metrics, record
    FROM epoch_rows LEFT JOIN (
        SELECT epoch, map(list(name), list(CASE WHEN known THEN coalesce(value, 'NaN'::DOUBLE) END)) AS metrics FROM epoch_values GROUP BY epoch
    ) USING (epoch) ORDER BY epoch
"""


def read_epochs(database: duckdb.DuckDBPyConnection, path: Path) -> list[EpochRecord]:
    """Every epoch record, ascending."""
    if not path.is_file():
        return []
    rows = database.execute(f"SELECT record FROM read_parquet({quoted(path)}) ORDER BY epoch").fetchall()
    return [msgspec.json.decode(row[0], type=EpochRecord) for row in rows]


def write_resources(
    database: duckdb.DuckDBPyConnection, folder: RunFolder, path: Path, records: list[ResourceRecord]
) -> None:
    """One file of resources/; GPUs as JSON text. Blocks: for the disk. Raises: OSError, duckdb.Error."""
    rows = {
        name: _column([getattr(record, name) for record in records], kind) for name, kind in _RESOURCE_TYPES.items()
    }
    rows["gpus"] = _column([msgspec.json.encode(record.gpus).decode() for record in records], _TEXT)
    database.register("resource_rows", rows)
    try:
        columns = _typed({**_RESOURCE_TYPES, "gpus": _TEXT})
        copy_whole(database, folder, path, f"SELECT {columns} FROM resource_rows ORDER BY {RESOURCE_ORDER}")
    finally:
        database.unregister("resource_rows")


def read_resources(database: duckdb.DuckDBPyConnection, paths: Iterable[Path], most: int) -> list[ResourceRecord]:
    """Resource records of these files, oldest first, thinned evenly to about `most` of each path when there are more."""
    if not (files := tuple(paths)):
        return []
    source = f"read_parquet({file_list(files)}, union_by_name=true)"
    rows = database.execute(f"SELECT count(*) FROM {source}").fetchall()[0][0]
    stride = max(1, -(-rows // most))
    cursor = database.execute(
        f"SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER (PARTITION BY path ORDER BY time) AS place "
        f"FROM {source}) WHERE place % {stride} = 0 OR {stride} = 1 ORDER BY time"
    )
    names = [column[0] for column in cursor.description or []]
    return [_resource(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def write_no_points(database: duckdb.DuckDBPyConnection, folder: RunFolder) -> None:
    """A points file without rows, so that other readers find the columns. Blocks: for the disk."""
    columns = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _POINT_TYPES.items())
    folder.make_parts()
    copy_whole(database, folder, folder.points / parquet_name(1, 1), f"SELECT {columns} WHERE false")


def count_rows(database: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Rows of a Parquet file, from its footer."""
    found = database.execute(f"SELECT sum(num_rows) FROM parquet_file_metadata({quoted(path)})").fetchall()
    return int(found[0][0] or 0)


def row_counts(paths: Iterable[Path]) -> list[int]:
    """Rows of Parquet files; 0 for one that cannot be read."""
    counts: list[int] = []
    if not (files := tuple(paths)):
        return counts
    with connect() as database:
        for path in files:
            try:
                counts.append(count_rows(database, path))
            except duckdb.Error:
                counts.append(0)
    return counts


def _column(values: list[Any], kind: str) -> np.ndarray[Any, Any]:
    """Values as DuckDB takes them: numbers as doubles with NaN for unknown, which it reads as NULL."""
    if kind == _TEXT:
        return np.array([*values, None], object)[:-1]
    if kind == "BOOLEAN":
        return np.array(values, bool)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _typed(types: dict[str, str]) -> str:
    return ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())


def _resource(values: dict[str, Any]) -> ResourceRecord:
    values["gpus"] = msgspec.json.decode(values["gpus"])
    return msgspec.convert(values, ResourceRecord)
