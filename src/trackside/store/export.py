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
from trackside.store.catalog import readable
from trackside.store.crashed import JournalTail
from trackside.store.database import connect, file_list, quoted
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.store.journal import Damage
from trackside.store.records import row_counts
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


class Exported(msgspec.Struct, frozen=True):
    """What an export came to."""

    points: int
    """How many were written."""
    missing: list[str]
    """What of the run folder could not be read, in words; empty when nothing is missing."""


class PointsOf:
    """Every point of a run folder as queries: its segments, and what only its journal holds.

    Blocks: for the disk. Raises: RunFolderError.
    """

    def __init__(self, path: str | Path) -> None:
        folder = RunFolder.open(path)
        self.database = connect(memory_mb=200)
        table, self.files, damage = read_points_of(folder)
        self.missing = [_journal_words(found) for found in damage]
        """What cannot be read; grows while `batches` finds more."""
        self.journal: str | None = None
        """Query of what only the journal holds."""
        if table.hot_rows:
            snapshot = table.snapshot()
            register_rows(self.database, "journal_rows", snapshot.chunks, snapshot.names)
            self.journal = points_query("journal_rows")

    def batches(self) -> Iterator[list[Row]]:
        """Rows, some thousands at a time; a damaged file is left at its damage, and is named in `missing`.

        Raises: StoreError, when a file has gone: the run goes on, and has merged it with others.
        """
        for path in self.files:
            yield from self._of_file(path)
        if self.journal is not None:
            yield from self._rows(self.journal)

    def leave_out_damaged(self) -> bool:
        """Go on without the files that cannot be read to their end; whether there are any. Blocks: for the disk."""
        good, bad = readable(self.files, throughout=True)
        self.missing += [self._words(path, 0) for path in bad]
        self.files = good
        return bool(bad)

    def query(self) -> str | None:
        """All of it as one; None without any."""
        parts = [_of_files(self.files)] if self.files else []
        parts += [self.journal] if self.journal is not None else []
        return " UNION ALL ".join(parts) or None

    def _of_file(self, path: Path) -> Iterator[list[Row]]:
        count = 0
        try:
            for rows in self._rows(_of_files((path,))):
                count += len(rows)
                yield rows
        except (duckdb.Error, UnicodeDecodeError) as error:
            if not path.exists():
                raise StoreError(f"{path} has gone while it was read: the run goes on; export it again") from error
            self.missing.append(self._words(path, count))

    def _rows(self, query: str) -> Iterator[list[Row]]:
        cursor = self.database.execute(query)
        while rows := cursor.fetchmany(_BATCH):
            yield rows

    def _words(self, path: Path, written: int) -> str:
        whole = sum(row_counts([path]))
        count = "an unknown number of points" if not whole else f"{whole - written:,} of its {whole:,} points"
        return f"points/{path.name} is damaged: {count} could not be read and are missing"


def _of_files(files: tuple[Path, ...]) -> str:
    return f"SELECT {', '.join(COLUMNS)} FROM read_parquet({file_list(files)})"


def _journal_words(damage: Damage) -> str:
    return (
        f"journal/{damage.path.name} is damaged: what {damage.lost_bytes:,} bytes held could not be read and is missing"
    )


def read_points_of(folder: RunFolder) -> tuple[PointTable, tuple[Path, ...], list[Damage]]:
    """What the journal alone holds, the segments beside it, and what of the journal is damaged, of one moment.

    Blocks: for the disk.
    """
    while True:
        layout = look_at(folder)
        table = PointTable()
        tail = JournalTail(table)
        tail.read(layout)
        if look_at(folder).points == layout.points:  # else a journal file became a segment meanwhile
            return table, layout.points, tail.damage


def read_rows(path: str | Path) -> Iterator[Row]:
    """Every point of a run folder, segments first, then what only the journal holds. Raises: StoreError."""
    points = PointsOf(path)
    for rows in points.batches():
        yield from rows
    if points.missing:
        raise StoreError(f"the points cannot be read: {'; '.join(points.missing)}")


def read_points(path: str | Path) -> Iterator[tuple[str, int, float]]:
    """(series, step, value) of every point. Raises: StoreError."""
    for row in read_rows(path):
        yield row[0], row[5], row[7]


def export_run(path: str | Path, format: str, out: IO[str] | None = None, target: str | Path | None = None) -> Exported:
    """Write every point that can be read to a file, or to a text stream (standard output by default).

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
        return Exported(_to_stream(points, format, sys.stdout if out is None else out), points.missing)
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
    return Exported(count, points.missing)


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
    while (query := points.query()) is not None:
        try:
            points.database.execute(f"COPY ({query}) TO {quoted(target)} ({OPTIONS})")
            found = points.database.execute(f"SELECT count(*) FROM read_parquet({quoted(target)})").fetchall()
        except (duckdb.Error, UnicodeDecodeError) as error:
            if not points.leave_out_damaged():
                said = str(error).splitlines()[0]
                raise StoreError(f"the points cannot be read, or not be written: {said}") from error
        else:
            return int(np.asarray(found)[0, 0])
    raise StoreError("; ".join(["the run holds no points that can be read", *points.missing]))
