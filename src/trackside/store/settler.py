"""What takes the disk longer than a commit may wait: segments, merges, epochs and resources as Parquet."""

import contextlib
import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import msgspec

from trackside.store import records, segments
from trackside.store.allocator import give_back
from trackside.store.database import connect
from trackside.store.folder import RunFolder, unlink_all
from trackside.store.hot import PointTable
from trackside.store.numbering import parquet_name
from trackside.store.outline import may_be_long, outline_path, write_outline
from trackside.wire.documents import EpochRecord, ResourceRecord

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
EPOCHS_SECONDS = 1.0
MOST_FILES = 32
MERGED_ROWS = 4_000_000
"""Rows of a merged file, at most; sorting more would spill to the disk for long."""
SMALL_ROWS = 500_000
"""Files of more rows are merged only while there are far too many."""
MEMORY_MB = 128


class Settlement(msgspec.Struct, frozen=True):
    """A closed journal file whose content becomes Parquet."""

    number: int
    rows: int
    """Oldest hot rows that are its."""
    resources: list[ResourceRecord]
    is_last: bool = False
    """No journal file follows: it is kept for the state in it, unless the end is clean."""


class _End(msgspec.Struct):
    clean: bool
    deadline: float


class Settler:
    """Turns closed journal files into Parquet, beside the commits.

    Threads: the methods may be called from any thread and never block, `join` excepted; the callbacks come from
    `trackside-segments`.
    """

    def __init__(
        self,
        folder: RunFolder,
        table: PointTable,
        *,
        on_settled: Callable[[], None],
        on_trouble: Callable[[str | None], None],
        is_resumed: bool,
    ) -> None:
        self.is_done = False
        """Whether everything that was asked is on the disk and the end was reached."""
        self._folder, self._table = folder, table
        self._on_settled, self._on_trouble = on_settled, on_trouble
        self._wake = threading.Condition()
        self._jobs: deque[Settlement] = deque()
        self._epochs: dict[int, EpochRecord] = {}
        self._fresh_epochs: dict[int, EpochRecord] = {}
        self._is_resumed = is_resumed
        self._epochs_written = -EPOCHS_SECONDS
        self._end: _End | None = None
        self._database: duckdb.DuckDBPyConnection | None = None
        self._rows: dict[Path, int] = {}
        self._thread = threading.Thread(target=self._run, name="trackside-segments", daemon=True)

    @property
    def backlog(self) -> int:
        """Closed journal files that are not Parquet yet."""
        return len(self._jobs)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def settle(self, job: Settlement) -> None:
        """Turn a closed journal file into Parquet and remove it."""
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def add_epochs(self, epochs: list[EpochRecord]) -> None:
        """Write epochs soon; those of the same number are replaced."""
        with self._wake:
            self._fresh_epochs.update({record.epoch: record for record in epochs})
            self._wake.notify()

    def finish(self, *, clean: bool, deadline: float) -> None:
        """Come to an end when all is done, or at a monotonic time; after a clean end files are few and large."""
        with self._wake:
            self._end = _End(clean, deadline)
            self._wake.notify()

    def join(self, timeout_s: float) -> None:
        """Wait for the end. Blocks: up to `timeout_s`."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, timeout_s))

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - top of thread
            logger.warning("the store's segment thread has ended: %r", error)
            self._on_trouble(f"the store's segment thread has ended: {error!r}")
        finally:
            self._let_go()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work, EPOCHS_SECONDS)
                job = self._jobs[0] if self._jobs else None
                end = self._end
            if job is not None:
                if not self._persist(partial(self._settle, job)):
                    return
                self._jobs.popleft()
                self._on_settled()
                self._persist(self._merge_if_many)
                self._let_go()
            if self._epochs_due(end) and not self._persist(self._write_epochs):
                return
            if end is not None and not self._jobs:
                self.is_done = not end.clean or self._persist(self._tidy)
                return

    def _has_work(self) -> bool:
        return bool(self._jobs or self._end)

    def _epochs_due(self, end: _End | None) -> bool:
        is_due = time.monotonic() - self._epochs_written >= EPOCHS_SECONDS
        return bool(self._fresh_epochs) and (is_due or end is not None)

    def _persist(self, work: Callable[[], None]) -> bool:
        """Do it, again and again while the disk refuses; False when the deadline came first."""
        in_trouble = False
        while True:
            try:
                work()
            except (OSError, duckdb.Error) as error:
                in_trouble = True
                self._on_trouble(getattr(error, "strerror", None) or str(error).splitlines()[0])
                self._database = None  # after an error inside it, a new one is safer
                if not self._pause():
                    return False
                continue
            if in_trouble:
                self._on_trouble(None)
            return True

    def _pause(self) -> bool:
        """Wait before the next try; False when there is no time for one."""
        with self._wake:
            end = self._end
            if end is not None and time.monotonic() + RETRY_SECONDS > end.deadline:
                return False
            self._wake.wait_for(lambda: self._end is not end, RETRY_SECONDS)
        return True

    def _settle(self, job: Settlement) -> None:
        """Resources first: the segment is what tells a restart that this journal file is done."""
        folder = self._folder
        folder.make_parts()
        if job.resources:
            path = folder.resources / parquet_name(job.number, job.number)
            records.write_resources(self._duck(), folder, path, job.resources)
        if job.rows:
            snapshot = self._table.snapshot()
            rows = snapshot.first(job.rows)
            path = segments.write_segment(self._duck(), folder, job.number, rows, snapshot.names)
            self._rows[path] = job.rows
            self._table.settle(job.rows, (*snapshot.files, path))
            if may_be_long(rows):
                write_outline(self._duck(), folder, path)
        done = job.number - 1 if job.is_last else job.number
        unlink_all(path for path in folder.journal_files() if int(path.stem) <= done)
        give_back()

    def _write_epochs(self) -> None:
        if self._is_resumed:
            self._epochs = {record.epoch: record for record in records.read_epochs(self._duck(), self._folder.epochs)}
            self._is_resumed = False
        with self._wake:
            fresh, self._fresh_epochs = self._fresh_epochs, {}
        self._epochs |= fresh
        try:
            records.write_epochs(self._duck(), self._folder, [*self._epochs.values()])
        except (OSError, duckdb.Error):
            with self._wake:
                self._fresh_epochs = fresh | self._fresh_epochs
            raise
        self._epochs_written = time.monotonic()

    def _merge_if_many(self) -> None:
        files = self._table.snapshot().files
        counted = [(path, self._rows_in(path)) for path in files]
        if not self._merge_points(counted, MOST_FILES, SMALL_ROWS):
            self._merge_points(counted, MOST_FILES, MERGED_ROWS)
        self._merge_resources(MOST_FILES)

    def _merge_points(self, files: list[tuple[Path, int]], most_files: int, small_rows: int) -> bool:
        merging = segments.plan_merge(files, most_files=most_files, small_rows=small_rows, most_rows=MERGED_ROWS)
        if not merging:
            return False
        merged = segments.merge_files(self._duck(), self._folder, merging, segments.POINT_ORDER)
        write_outline(self._duck(), self._folder, merged)
        standing = [path for path, _rows in files if path not in merging or path == merging[0]]
        standing[standing.index(merging[0])] = merged
        self._table.replace_files(tuple(standing))
        unlink_all([*merging, *map(outline_path, merging)])
        return True

    def _merge_resources(self, most_files: int) -> None:
        files = [(path, self._rows_in(path)) for path in self._folder.resource_files()]
        merging = segments.plan_merge(files, most_files=most_files, small_rows=SMALL_ROWS, most_rows=MERGED_ROWS // 4)
        if merging:
            segments.merge_files(self._duck(), self._folder, merging, segments.RESOURCE_ORDER)
            unlink_all(merging)

    def _tidy(self) -> None:
        """A clean end: few large files, a file for pandas even without points, no journal."""
        while self._merge_points([(path, self._rows_in(path)) for path in self._table.snapshot().files], 1, SMALL_ROWS):
            pass
        self._merge_resources(1)
        if not self._table.snapshot().files:
            records.write_no_points(self._duck(), self._folder)
        self._let_go()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder.journal)

    def _rows_in(self, path: Path) -> int:
        if path not in self._rows:
            self._rows[path] = records.count_rows(self._duck(), path)
        return self._rows[path]

    def _let_go(self) -> None:
        """Close the database: an open one keeps the pages that a segment or a merge took, some 100 MB, for the next one."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _duck(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            self._database = connect(threads=1, memory_mb=MEMORY_MB, scratch=self._folder.journal)
        return self._database
