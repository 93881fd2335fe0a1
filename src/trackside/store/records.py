"""Epochs, resources and events as files that others can read."""

from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from trackside.store.database import file_list, quoted
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

_RESOURCE_COLUMNS: dict[str, type] = {
    "time": np.float64,
    "path": object,
    "host": object,
    "rank": np.float64,
    "cpu": np.float64,
    "memory_used": np.float64,
    "memory_total": np.float64,
    "memory_limit_source": object,
    "network_sent": np.float64,
    "network_received": np.float64,
    "disk_read": np.float64,
    "disk_written": np.float64,
    "disk_used": np.float64,
    "disk_total": np.float64,
    "gpu_util": np.float64,
    "gpu_util_peak": np.float64,
    "vram_used": np.float64,
    "vram_total": np.float64,
    "temperature": np.float64,
    "power": np.float64,
    "torch_allocated": np.float64,
    "torch_reserved": np.float64,
}
_WHOLE = ("rank", "memory_used", "memory_total", "disk_used", "disk_total", "vram_used", "vram_total")
_WHOLE_TORCH = ("torch_allocated", "torch_reserved")


def event_line(record: EventRecord) -> bytes:
    """One line of events.jsonl; a later line of the same id replaces it."""
    return msgspec.json.encode(record) + b"\n"


def read_events(path: Path) -> list[EventRecord]:
    """Events by id, the last line of each; a torn last line is left out."""
    if not path.is_file():
        return []
    found: dict[int, EventRecord] = {}
    for line in path.read_bytes().splitlines():
        try:
            record = msgspec.json.decode(line, type=EventRecord)
        except msgspec.DecodeError:
            continue
        found[record.id] = record
    return [found[key] for key in sorted(found)]


def write_epochs(database: duckdb.DuckDBPyConnection, path: Path, records: list[EpochRecord], scratch: Path) -> None:
    """epochs.parquet: one row an epoch, metrics as a map. Blocks: for the disk."""
    rows = [_epoch_row(record) for record in sorted(records, key=lambda record: record.epoch)]
    _write_json_rows(database, path, rows, _EPOCH_SELECT, scratch)


def write_resources(
    database: duckdb.DuckDBPyConnection, path: Path, records: list[ResourceRecord], scratch: Path
) -> None:
    """One file of resources/. Blocks: for the disk."""
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for name, kind in _RESOURCE_COLUMNS.items():
        values = [getattr(record, name) for record in records]
        if kind is object:
            columns[name] = np.array(values, object)
        else:
            columns[name] = np.array([np.nan if value is None else value for value in values], np.float64)
    columns["gpus"] = np.array([msgspec.json.encode(record.gpus).decode() for record in records], object)
    database.register("resource_rows", columns)
    casts = ", ".join(_cast(name) for name in [*columns])
    temporary = scratch / f"{path.name}.tmp"
    try:
        database.execute(
            f"COPY (SELECT {casts} FROM resource_rows ORDER BY path, time) TO {quoted(temporary)} "
            "(FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2)"
        )
        temporary.replace(path)
    finally:
        database.unregister("resource_rows")
        temporary.unlink(missing_ok=True)


def read_resources(database: duckdb.DuckDBPyConnection, paths: list[Path]) -> list[ResourceRecord]:
    """Every resource record of these files, oldest first."""
    if not paths:
        return []
    cursor = database.execute(f"SELECT * FROM read_parquet({file_list(paths)}, union_by_name=true) ORDER BY time")
    names = [column[0] for column in cursor.description or []]
    out = []
    for row in cursor.fetchall():
        values = dict(zip(names, row, strict=True))
        values["gpus"] = msgspec.json.decode(values["gpus"])
        out.append(msgspec.convert(values, ResourceRecord))
    return out


def read_epochs(database: duckdb.DuckDBPyConnection, path: Path) -> list[EpochRecord]:
    """Every epoch record, ascending."""
    if not path.is_file():
        return []
    rows = database.execute(f"SELECT record FROM read_parquet({quoted(path)}) ORDER BY epoch").fetchall()
    return [msgspec.json.decode(row[0], type=EpochRecord) for row in rows]


def _cast(name: str) -> str:
    if name in ("path", "host", "memory_limit_source", "gpus", "time"):
        return name
    kind = "BIGINT" if name in _WHOLE or name in _WHOLE_TORCH else "DOUBLE"
    return f"CASE WHEN isnan({name}) THEN NULL ELSE {name}::{kind} END AS {name}"


_EPOCH_SELECT = (
    "epoch, seconds, samples, batches, throughput, ranks, complete, ended_at, cpu, memory_used, memory_total, "
    "gpu, vram_used, vram_total, metrics, record"
)
_EPOCH_TYPES = {
    "epoch": "BIGINT",
    "seconds": "DOUBLE",
    "samples": "BIGINT",
    "batches": "BIGINT",
    "throughput": "DOUBLE",
    "ranks": "BIGINT",
    "complete": "BOOLEAN",
    "ended_at": "DOUBLE",
    "cpu": "DOUBLE",
    "memory_used": "BIGINT",
    "memory_total": "BIGINT",
    "gpu": "DOUBLE",
    "vram_used": "BIGINT",
    "vram_total": "BIGINT",
    "metrics": "MAP(VARCHAR, DOUBLE)",
    "record": "VARCHAR",
}


def _epoch_row(record: EpochRecord) -> list[Any]:
    metrics = {name: None if value is None else float(value) for name, value in record.metrics.items()}
    row = [getattr(record, name) for name in list(_EPOCH_TYPES)[:-2]]
    return [*row, metrics, msgspec.json.encode(record).decode()]


def _write_json_rows(
    database: duckdb.DuckDBPyConnection, path: Path, rows: list[list[Any]], select: str, scratch: Path
) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in _EPOCH_TYPES.items())
    database.execute(f"CREATE OR REPLACE TABLE epoch_rows ({columns})")
    if rows:
        marks = ", ".join("?" * len(_EPOCH_TYPES))
        database.executemany(f"INSERT INTO epoch_rows VALUES ({marks})", rows)
    temporary = scratch / f"{path.name}.tmp"
    try:
        database.execute(f"COPY (SELECT {select} FROM epoch_rows) TO {quoted(temporary)} (FORMAT parquet)")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
