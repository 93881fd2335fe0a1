"""The store's one thread: group commits, segments, the run's other files. Only it waits for the disk."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from trackside.store import records, segments
from trackside.store.database import connect
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.store.journal import CHECKPOINT, Frame, JournalFile, pack, pack_frame
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

logger = logging.getLogger(__name__)

COMMIT_SECONDS = 0.05
ROTATE_ROWS = 2_000_000
ROTATE_BYTES = 64 * 1024 * 1024
ROTATE_SECONDS = 120.0
MAX_WAITING_BYTES = 256 * 1024 * 1024
RETRY_SECONDS = 0.5
STALL_SECONDS = 2.0


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the store is doing."""

    not_persisted_since: float | None = None
    """Wall clock of the last commit while the disk does not take what arrives, else None."""
    reason: str | None = None
    waiting_bytes: int = 0
    dropped_frames: int = 0
    points: int = 0
    journal_bytes: int = 0
    segments: int = 0


@dataclass(slots=True)
class _Waiting:
    """What has come since the last turn of the thread, in order of its kind."""

    journal: list[bytes] = field(default_factory=list)
    durable: dict[bytes, int] = field(default_factory=dict)
    batches: list[PointBatch] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    resources: list[ResourceRecord] = field(default_factory=list)
    epochs: list[EpochRecord] = field(default_factory=list)
    files: dict[Path, bytes] = field(default_factory=dict)
    checkpoint: bytes | None = None


class StoreWriter:
    """Takes what arrives and brings it to the run folder.

    Threads: the methods may be called from any one thread and never block; the callbacks are called from
    `trackside-store`. What a bound drops is counted, and its session is not acknowledged any further.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        on_durable: Callable[[dict[bytes, int]], None],
        on_status: Callable[[StoreStatus], None],
        on_checkpoint_wanted: Callable[[], None],
        next_file: int = 1,
    ) -> None:
        self.folder = folder
        self.table = PointTable()
        self._on_durable, self._on_status, self._on_checkpoint_wanted = on_durable, on_status, on_checkpoint_wanted
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._queue: deque[_Waiting] = deque([_Waiting()])
        self._waiting_bytes = 0
        self._dropped_frames = 0
        self._gapped: set[bytes] = set()
        self._file_number = next_file
        self._file: JournalFile | None = None
        self._file_rows = 0
        self._file_since = time.monotonic()
        self._checkpoint_asked = False
        self._epochs: dict[int, EpochRecord] = {}
        self._resources: list[ResourceRecord] = []
        self._resources_since = time.monotonic()
        self._status = StoreStatus()
        self._last_commit = time.time()
        self._deadline: float | None = None
        self._clean_end: bool | None = None
        self._database: duckdb.DuckDBPyConnection | None = None
        self.table.files = tuple(segments.drop_covered(folder))
        self._thread = threading.Thread(target=self._run, name="trackside-store", daemon=True)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    # --- intake: any thread, never blocks ----------------------------------------------------------------------------

    def journal(self, session: bytes, seq: int, arrival: float, data: bytes) -> None:
        """Keep a frame as it came; its session is acknowledged up to `seq` once it is on the disk."""
        record = pack_frame(Frame(session, arrival, data))
        with self._lock:
            if self._waiting_bytes + len(record) > MAX_WAITING_BYTES:
                self._dropped_frames += 1
                self._gapped.add(session)
                return
            self._waiting_bytes += len(record)
            last = self._queue[-1]
            last.journal.append(record)
            if seq and session not in self._gapped:
                last.durable[session] = max(seq, last.durable.get(session, 0))
        self._wake.set()

    def points(self, batch: PointBatch) -> None:
        """Values of frames that were journaled before; readers see them at once."""
        self.table.append(batch)
        with self._lock:
            self._queue[-1].batches.append(batch)

    def define_metric(self, metric: int, name: str) -> None:
        """A metric's name."""
        self.table.name_metric(metric, name)

    def define_rank(self, rank: int, generation: int, path: str) -> None:
        """A rank's path."""
        self.table.place_rank(rank, generation, path)

    def event(self, record: EventRecord) -> None:
        """A new or changed event."""
        self._put("events", record)

    def resource(self, record: ResourceRecord) -> None:
        """A resource record."""
        self._put("resources", record)

    def epoch(self, record: EpochRecord) -> None:
        """A new or amended epoch."""
        self._put("epochs", record)

    def write_file(self, path: Path, data: bytes) -> None:
        """Write a whole file of the folder soon; the latest data wins."""
        with self._lock:
            self._queue[-1].files[path] = data
        self._wake.set()

    def checkpoint(self, data: bytes) -> None:
        """The state as of now: a new journal file begins with it, and what came before becomes a segment."""
        with self._lock:
            self._queue[-1].checkpoint = data
            self._queue.append(_Waiting())
        self._wake.set()

    def status(self) -> StoreStatus:
        """How it is doing now."""
        return self._status

    def close(self, *, clean: bool, deadline_seconds: float) -> bool:
        """Write what is left; after a clean end the journal goes. Idempotent.

        Blocks: up to `deadline_seconds`. Returns whether everything is on the disk.
        """
        self._clean_end = clean
        self._deadline = time.monotonic() + deadline_seconds
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(deadline_seconds + 1)
        return not self._thread.is_alive() and self._waiting_bytes == 0

    def _put(self, kind: str, record: Any) -> None:
        with self._lock:
            getattr(self._queue[-1], kind).append(record)
        self._wake.set()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # top of thread
            logger.exception("the store thread has ended")
            self._say_status(since=0.0, reason=f"the store thread has ended: {error!r}")

    def _work(self) -> None:
        while self._clean_end is None:
            self._wake.wait(1.0)
            self._wake.clear()
            self._turn()
            if self._clean_end is None:
                time.sleep(COMMIT_SECONDS)
        self._turn()
        self._finish()

    def _turn(self) -> None:
        """Write everything that waits; retry until the disk takes it."""
        while True:
            waiting = self._take()
            if waiting is None:
                break
            self._persist(partial(self._commit, waiting))
            if waiting.checkpoint is not None:
                self._persist(partial(self._rotate, waiting.checkpoint))
        self._want_checkpoint()
        self._say_status()

    def _take(self) -> _Waiting | None:
        with self._lock:
            first = self._queue[0]
            if len(self._queue) > 1:
                return self._queue.popleft()
            if not any((first.journal, first.batches, first.events, first.resources, first.epochs, first.files)):
                return None
            self._queue[0] = _Waiting()
            return first

    def _persist(self, work: Callable[[], None]) -> bool:
        """Do it, again and again while the disk refuses. Gives up only at the deadline of `close`."""
        while True:
            try:
                work()
            except (OSError, duckdb.Error) as error:
                reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
                self._say_status(since=self._last_commit, reason=reason)
                if self._deadline is not None and time.monotonic() > self._deadline:
                    return False
                time.sleep(RETRY_SECONDS)
                continue
            self._last_commit = time.time()
            return True

    def _commit(self, waiting: _Waiting) -> None:
        if waiting.journal:
            data = b"".join(waiting.journal)
            file = self._open_file()
            file.append(data)
            waiting.journal = []
            file.sync()
            with self._lock:
                self._waiting_bytes -= len(data)
        if waiting.durable:
            durable, waiting.durable = waiting.durable, {}
            self._on_durable(durable)
        self._file_rows += sum(map(len, waiting.batches))
        waiting.batches = []
        self._write_records(waiting)

    def _write_records(self, waiting: _Waiting) -> None:
        if waiting.events:
            with self.folder.events.open("ab") as file:
                file.write(b"".join(map(records.event_line, waiting.events)))
            waiting.events = []
        self._resources += waiting.resources
        waiting.resources = []
        if waiting.epochs:
            self._epochs.update({record.epoch: record for record in waiting.epochs})
            waiting.epochs = []
            records.write_epochs(self._duck(), self.folder.epochs, [*self._epochs.values()], self.folder.journal)
        for path in list(waiting.files):
            self.folder.write_whole(path, waiting.files[path])
            del waiting.files[path]

    def _open_file(self) -> JournalFile:
        if self._file is None:
            self._file = JournalFile(self.folder.journal / f"{self._file_number:06d}.log")
        return self._file

    def _want_checkpoint(self) -> None:
        size = self._file.size if self._file else 0
        is_due = time.monotonic() - self._file_since > ROTATE_SECONDS and size > 0
        if self._checkpoint_asked or not (self._file_rows >= ROTATE_ROWS or size >= ROTATE_BYTES or is_due):
            return
        self._checkpoint_asked = True
        self._on_checkpoint_wanted()

    def _rotate(self, state: bytes) -> None:
        """Begin a journal file with the state, turn what came before into a segment, drop its journal."""
        covered = self._file_number
        if self._file is not None:
            self._file.close()
        self._file_number += 1
        self._file = JournalFile(self.folder.journal / f"{self._file_number:06d}.log")
        self._file.append(pack(CHECKPOINT, state))
        self._file.sync()
        rows, self._file_rows = self._file_rows, 0
        self._file_since, self._checkpoint_asked = time.monotonic(), False
        self._settle(covered, rows)
        self._write_resources(covered)
        for path in self.folder.journal_files():
            if int(path.stem) <= covered:
                path.unlink(missing_ok=True)

    def _settle(self, number: int, rows: int) -> None:
        """Write the oldest `rows` hot rows as a segment."""
        snapshot = self.table.snapshot()
        if not rows:
            return
        path = segments.write_segment(self._duck(), self.folder, number, snapshot.first(rows))
        self.table.settle(rows, (*self.table.files, path))

    def _write_resources(self, number: int) -> None:
        if self._resources:
            path = self.folder.resources / f"{number:06d}.parquet"
            records.write_resources(self._duck(), path, self._resources, self.folder.journal)
            self._resources = []

    def _finish(self) -> None:
        """The end: the last segment, few large files, no journal after a clean end."""
        done = self._persist(lambda: self._settle(self._file_number, self.table.hot_rows))
        done = self._persist(lambda: self._write_resources(self._file_number)) and done
        files = list(self.table.files)
        rows = self.table.total
        if done and len(files) > 1 and rows <= segments.MERGE_ROWS and self._clean_end:
            done = self._persist(lambda: self._merge(files))
        if self._file is not None:
            self._file.close()
        if self._clean_end and done:
            self._persist(self._remove_journal)
        self._say_status()

    def _merge(self, files: list[Path]) -> None:
        merged = segments.merge_segments(self._duck(), self.folder, files)
        self.table.files = (merged,)

    def _remove_journal(self) -> None:
        for path in sorted(self.folder.journal.iterdir()) if self.folder.journal.is_dir() else []:
            path.unlink(missing_ok=True)
        if self.folder.journal.is_dir():
            self.folder.journal.rmdir()

    def _duck(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            self._database = connect(threads=1, memory_mb=256, scratch=self.folder.journal)
        return self._database

    def _say_status(self, *, since: float | None = None, reason: str | None = None) -> None:
        is_stalled = since is not None and time.time() - since > STALL_SECONDS
        status = StoreStatus(
            not_persisted_since=since if is_stalled else None,
            reason=reason if is_stalled else None,
            waiting_bytes=self._waiting_bytes,
            dropped_frames=self._dropped_frames,
            points=self.table.total,
            journal_bytes=self._file.size if self._file else 0,
            segments=len(self.table.files),
        )
        changed = status.not_persisted_since != self._status.not_persisted_since
        self._status = status
        if changed:
            self._on_status(status)
