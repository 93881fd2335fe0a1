"""Points out of a run folder, for other tools; streamed, in bounded memory."""

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import duckdb
import msgspec
import numpy as np

from trackside.errors import StoreError
from trackside.store.crashed import JournalTail
from trackside.store.database import connect, file_list, quoted
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.store.resume import look_at
from trackside.store.segments import OPTIONS, points_query, register_rows
from trackside.wire.values import to_json_number

FORMATS = ("csv", "parquet", "jsonl")
COLUMNS = ("series", "path", "rank", "generation", "epoch", "step", "time", "value")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The last four are the wide forms of the first, which some spreadsheets take for the same."""
_BATCH = 8 * 2048

Row = tuple[Any, ...]
"""The values of `COLUMNS`; an unknown epoch or path is None."""


class PointsOf:
    """Every point of a run folder as a query: its segments, and what only its journal holds.

    Blocks: for the disk. Raises: RunFolderError.
    """

    def __init__(self, path: str | Path) -> None:
        folder = RunFolder.open(path)
        self.database = connect(memory_mb=200)
        table, files = read_points_of(folder)
        self.queries = [f"SELECT {', '.join(COLUMNS)} FROM read_parquet({file_list(files)})"] if files else []
        if table.hot_rows:
            snapshot = table.snapshot()
            register_rows(self.database, "journal_rows", snapshot.chunks, snapshot.names)
            self.queries.append(points_query("journal_rows"))

    def batches(self) -> Iterator[list[Row]]:
        """Rows, some thousands at a time. Raises: StoreError."""
        try:
            for query in self.queries:
                cursor = self.database.execute(query)
                while rows := cursor.fetchmany(_BATCH):
                    yield rows
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise StoreError(f"the points cannot be read: {str(error).splitlines()[0]}") from error


def read_points_of(folder: RunFolder) -> tuple[PointTable, tuple[Path, ...]]:
    """What the journal alone holds, and the segments beside it, of one moment. Blocks: for the disk."""
    while True:
        layout = look_at(folder)
        table = PointTable()
        JournalTail(table).read(layout)
        if look_at(folder).points == layout.points:  # else a journal file became a segment meanwhile
            return table, layout.points


def read_rows(path: str | Path) -> Iterator[Row]:
    """Every point of a run folder, segments first, then what only the journal holds. Raises: StoreError."""
    for rows in PointsOf(path).batches():
        yield from rows


def read_points(path: str | Path) -> Iterator[tuple[str, int, float]]:
    """(series, step, value) of every point. Raises: StoreError."""
    for row in read_rows(path):
        yield row[0], row[5], row[7]


def export_run(path: str | Path, format: str, out: IO[str] | None = None, target: str | Path | None = None) -> int:
    """Write every point to a file, or to a text stream (standard output by default); return how many.

    Args:
        path: the run folder.
        format: `csv`, `jsonl` or `parquet`; the last one needs a file, or a standard output that is no terminal.
        out: text stream to write to when there is no target.
        target: file to write; it appears when it is whole.

    Blocks: for the disk. Raises: RunFolderError; StoreError for an unknown format, or a target that cannot be written.
    """
    if format not in FORMATS:
        raise StoreError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
    points = PointsOf(path)
    if target is None:
        return _to_stream(points, format, sys.stdout if out is None else out)
    target = Path(target)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.touch()
        if format == "parquet":
            count = _write_parquet(points, temporary)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                count = _write_text(points, format, file)
        temporary.replace(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}; name another file") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def safe_cell(text: str | None) -> str:
    """Text that no spreadsheet takes for a formula."""
    if text is None:
        return ""
    return "'" + text if text.startswith(FORMULA_STARTS) else text


def _to_stream(points: PointsOf, format: str, out: IO[str]) -> int:
    if format != "parquet":
        return _write_text(points, format, out)
    binary = getattr(out, "buffer", None)
    if binary is None or out.isatty():
        raise StoreError("parquet is no text; name a file with --output, or send standard output to one")
    with tempfile.TemporaryDirectory(prefix="trackside-export-") as scratch:
        whole = Path(scratch) / "points.parquet"
        count = _write_parquet(points, whole)
        with whole.open("rb") as file:
            shutil.copyfileobj(file, binary)
    binary.flush()
    return count


def _write_text(points: PointsOf, format: str, out: IO[str]) -> int:
    count = 0
    writer = csv.writer(_Lines(out), lineterminator="\r\n")
    if format == "csv":
        writer.writerow(COLUMNS)
    for rows in points.batches():
        count += len(rows)
        if format == "csv":
            writer.writerows(map(_csv_row, rows))
        else:
            out.write("".join(map(_json_line, rows)))
    out.flush()
    return count


class _Lines:
    """Where csv writes its rows: only with this line end does it quote a carriage return in a name."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def write(self, row: str) -> None:
        self._out.write(row[:-2] + "\n")


def _csv_row(row: Row) -> Row:
    series, path, rank, generation, epoch, step, time, value = row
    return (safe_cell(series), safe_cell(path), rank, generation, epoch, step, time, to_json_number(value))


_encoder = msgspec.json.Encoder()


def _json_line(row: Row) -> str:
    record = dict(zip(COLUMNS, row, strict=True))
    record["time"], record["value"] = to_json_number(row[6]), to_json_number(row[7])
    return _encoder.encode(record).decode() + "\n"


def _write_parquet(points: PointsOf, target: Path) -> int:
    if not points.queries:
        raise StoreError("the run holds no points")
    try:
        points.database.execute(f"COPY ({' UNION ALL '.join(points.queries)}) TO {quoted(target)} ({OPTIONS})")
        found = points.database.execute(f"SELECT count(*) FROM read_parquet({quoted(target)})").fetchall()
    except duckdb.Error as error:
        raise StoreError(f"the points cannot be read, or not be written: {str(error).splitlines()[0]}") from error
    return int(np.asarray(found)[0, 0])
