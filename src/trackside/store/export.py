"""Points out of a run folder, for other tools; streamed, in bounded memory."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from trackside.errors import StoreError
from trackside.store.crashed import JournalTail
from trackside.store.database import connect, file_list, quoted
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.wire.columns import NO_EPOCH
from trackside.wire.values import to_json_number

FORMATS = ("csv", "parquet", "jsonl")
COLUMNS = ("series", "path", "rank", "generation", "epoch", "step", "time", "value")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_BATCH = 10_000

Row = tuple[Any, ...]


def read_rows(path: str | Path) -> Iterator[Row]:
    """Every point of a run folder, segments first, then what a crash left in the journal."""
    folder = RunFolder.open(path)
    if files := folder.point_files():
        query = f"SELECT {', '.join(COLUMNS)} FROM read_parquet({file_list(files)})"
        cursor = connect().execute(query)
        while rows := cursor.fetchmany(_BATCH):
            yield from rows
    table = PointTable()
    JournalTail(folder, table)
    snapshot = table.snapshot()
    hot = snapshot.hot
    for at in range(len(hot)):
        rank, generation, epoch = int(hot.rank[at]), int(hot.generation[at]), int(hot.epoch[at])
        yield (
            snapshot.metrics[int(hot.metric[at])],
            snapshot.paths[rank, generation],
            rank,
            generation,
            None if epoch == NO_EPOCH else epoch,
            int(hot.step[at]),
            float(hot.time[at]),
            float(hot.value[at]),
        )


def read_points(path: str | Path) -> Iterator[tuple[str, int, float]]:
    """(series, step, value) of every point."""
    for row in read_rows(path):
        yield row[0], row[5], row[7]


def export_run(path: str | Path, format: str, out: IO[str] | None, target: Path | None) -> int:
    """Write every point to a text stream (csv, jsonl) or a file (parquet); return how many.

    Raises:
        StoreError: parquet without a file to write to, or an unknown format.
    """
    if format == "parquet":
        return _export_parquet(path, target)
    if out is None or format not in FORMATS:
        raise StoreError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
    return _export_csv(path, out) if format == "csv" else _export_jsonl(path, out)


def _export_csv(path: str | Path, out: IO[str]) -> int:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for row in read_rows(path):
        value = row[7] if math.isfinite(row[7]) else to_json_number(row[7])
        writer.writerow(
            [safe_cell(row[0]), safe_cell(row[1]), *row[2:4], "" if row[4] is None else row[4], *row[5:7], value]
        )
        count += 1
    return count


def safe_cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return "'" + text if text.startswith(_FORMULA) else text


def _export_jsonl(path: str | Path, out: IO[str]) -> int:
    count = 0
    for row in read_rows(path):
        record = dict(zip(COLUMNS, (*row[:7], to_json_number(row[7])), strict=True))
        out.write(msgspec.json.encode(record).decode() + "\n")
        count += 1
    return count


def _export_parquet(path: str | Path, target: Path | None) -> int:
    if target is None:
        raise StoreError("parquet is no text; name a file with --output")
    folder = RunFolder.open(path)
    table = PointTable()
    JournalTail(folder, table)
    if table.hot_rows:
        raise StoreError(f"{folder.path} is not closed yet; `trackside view` it, or export csv or jsonl")
    files = folder.point_files()
    if not files:
        raise StoreError(f"{folder.path} holds no points")
    database = connect()
    database.execute(
        f"COPY (FROM read_parquet({file_list(files)})) TO {quoted(target)} (FORMAT parquet, COMPRESSION zstd)"
    )
    found = database.execute(f"SELECT count(*) FROM {quoted(target)}").fetchone()
    return int(found[0]) if found else 0
