"""What arrives, on its way to the run folder: group commits of the journal, at most a tenth of a second behind."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from trackside.errors import StoreError
from trackside.store import records
from trackside.store.folder import RunFolder, sync_path
from trackside.store.hot import PointTable
from trackside.store.journal import (
    CHECKPOINT,
    FRAME_OVERHEAD_BYTES,
    ROLL,
    AppendFile,
    Frame,
    RollCall,
    pack,
    pack_frame,
    read_journal,
)
from trackside.store.numbering import journal_name
from trackside.store.roll import SessionRoll
from trackside.store.settler import Settlement, Settler
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

logger = logging.getLogger(__name__)

COMMIT_SECONDS = 0.05
ROTATE_ROWS = 500_000
"""Values of a segment. Writing one takes memory, some 200 bytes a value for the moment."""
ROTATE_BYTES = 64 * 1024 * 1024
ROTATE_SECONDS = 60.0
MAX_WAITING_BYTES = 96 * 1024 * 1024
SPARE_BYTES = 32 * 1024 * 1024
"""More that may wait of what launchers say: who comes and goes is known while values have to wait with their ranks."""
MOST_BACKLOG = 2
"""Closed journal files that wait to become segments before the present one may grow beyond its size."""
MAX_HOT_ROWS = 4_000_000
RETRY_SECONDS = 0.5
STALL_SECONDS = 2.0
NOTICE_SECONDS = 0.5
MAX_WAITING_RECORDS = 100_000

Record = TypeVar("Record")


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the store is doing."""

    not_persisted_since: float | None = None
    """Since when the disk does not take what arrives, UTC epoch seconds; None while it does."""
    reason: str | None = None
    waiting_bytes: int = 0
    dropped_records: int = 0
    """Events, epochs and resource samples that there was no memory to keep."""
    points: int = 0
    points_in_memory: int = 0
    journal_bytes: int = 0
    segments: int = 0
    commits: int = 0


class _Waiting(msgspec.Struct):
    """What has come since the last turn of the thread, in order of its kind."""

    frames: list[Frame] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    durable: dict[bytes, int] = msgspec.field(default_factory=dict)
    rows: int = 0
    events: list[EventRecord] = msgspec.field(default_factory=list)
    resources: list[ResourceRecord] = msgspec.field(default_factory=list)
    epochs: list[EpochRecord] = msgspec.field(default_factory=list)
    files: dict[Path, tuple[bytes, bool]] = msgspec.field(default_factory=dict)
    """Content, and whether it is for this user only."""
    checkpoint: bytes | None = None
    since: tuple[float, float] | None = None
    """Wall clock and monotonic time of the oldest item."""


class StoreWriter:
    """Takes what arrives and brings it to the run folder.

    Threads: the methods but `close` never block and may be called from one thread (the controller's loop); the
    callbacks come from the store's threads, or from the caller's when the disk hangs. Frames and values are never dropped:
    whoever brings them asks `has_room` first, and leaves them with their rank while there is none. Records beyond their
    bound are counted.

    A checkpoint must be taken when the frames given to `journal` and the values given to `points` say the same: what
    came before it becomes a segment, what comes after it is replayed.

    Args:
        on_durable: highest sequences that are on the disk since the last call, by session.
        on_status: the store stalled, recovered, or stalls for another reason.
        on_checkpoint_wanted: `checkpoint` should be called soon.
        next_file: number of the first journal file; a resumed run's is `Resumption.next_file`.
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
        self.table = PointTable(files=tuple(folder.point_files()))
        self._on_durable, self._on_status, self._on_checkpoint_wanted = on_durable, on_status, on_checkpoint_wanted
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._queue: deque[_Waiting] = deque([_Waiting()])
        self._waiting_bytes = 0
        self._dropped_records = 0
        self._committing: _Waiting | None = None
        self._troubles: dict[str, str] = {}
        self._said: tuple[bool, str | None] = (False, None)
        self._noticed = 0.0
        self._commits = 0
        # of the thread
        self._roll = SessionRoll()
        self._file_number = next_file
        self._file: AppendFile | None = None
        self._event_file: AppendFile | None = None
        self._file_rows = 0
        self._head_bytes = 0
        self._is_resumed = next_file > 1
        """Then a checkpoint comes soon: its first file has none to begin with."""
        self._file_since = time.monotonic()
        self._checkpoint_asked = False
        self._resources: list[ResourceRecord] = []
        # the end
        self._end: tuple[bool, float] | None = None
        self._settler = Settler(
            folder,
            self.table,
            on_settled=self._wake.set,
            on_trouble=lambda reason: self._note_trouble("segments", reason),
            is_resumed=next_file > 1,
        )
        self._thread = threading.Thread(target=self._run, name="trackside-store", daemon=True)

    def start(self) -> None:
        """Begin writing."""
        self._settler.start()
        self._thread.start()

    # --- intake: never blocks -----------------------------------------------------------------------------------------

    def has_room(self, *, is_bulk: bool = True) -> bool:
        """Whether a frame can be taken now. `is_bulk`: it holds what ranks measured; that waits first."""
        if not is_bulk:
            return self._waiting_bytes <= MAX_WAITING_BYTES + SPARE_BYTES
        return self._waiting_bytes <= MAX_WAITING_BYTES and self.table.hot_rows <= MAX_HOT_ROWS

    def journal(self, session: bytes, seq: int, arrival: float, data: bytes) -> None:
        """Keep a frame as it came; its session is acknowledged up to `seq` once it is on the disk."""
        size = len(data) + FRAME_OVERHEAD_BYTES
        with self._lock:
            self._waiting_bytes += size
            last = self._last()
            last.size_bytes += size
            last.frames.append(Frame(session, arrival, data))
            if seq:
                last.durable[session] = seq
        self._wake.set()
        self._notice_stall()

    def points(self, batch: PointBatch) -> None:
        """Values of frames that were journaled before; readers see them at once."""
        self.table.append(batch)
        with self._lock:
            self._last().rows += len(batch)
        self._wake.set()

    def define_metric(self, metric: int, name: str) -> None:
        """A metric's name."""
        self.table.name_metric(metric, name)

    def define_rank(self, rank: int, generation: int, path: str) -> None:
        """A rank's path."""
        self.table.place_rank(rank, generation, path)

    def event(self, record: EventRecord) -> None:
        """A new or changed event."""
        with self._lock:
            self._put(self._last().events, record)

    def resource(self, record: ResourceRecord) -> None:
        """A resource record."""
        with self._lock:
            self._put(self._last().resources, record)

    def epoch(self, record: EpochRecord) -> None:
        """A new or amended epoch."""
        with self._lock:
            self._put(self._last().epochs, record)

    def write_file(self, path: Path, data: bytes, *, private: bool = False) -> None:
        """Write a whole file of the folder soon; the latest data wins. `private`: readable by its user only."""
        with self._lock:
            self._last().files[path] = data, private
        self._wake.set()

    def checkpoint(self, data: bytes) -> None:
        """The state as of now: a new journal file begins with it, and what came before becomes a segment."""
        with self._lock:
            self._last().checkpoint = data
            self._queue.append(_Waiting())
        self._wake.set()

    def status(self) -> StoreStatus:
        """How it is doing now; also while its threads hang."""
        with self._lock:
            since, reason = self._stall()
            file = self._file
            return StoreStatus(
                not_persisted_since=since,
                reason=reason,
                waiting_bytes=self._waiting_bytes,
                dropped_records=self._dropped_records,
                points=self.table.total,
                points_in_memory=self.table.hot_rows,
                journal_bytes=file.size if file else 0,
                segments=len(self.table.files),
                commits=self._commits,
            )

    def close(self, *, clean: bool, deadline_seconds: float) -> bool:
        """Write what is left; after a clean end the journal goes and files are few. Idempotent.

        Blocks: up to `deadline_seconds`. Returns whether everything is on the disk.
        """
        deadline = time.monotonic() + deadline_seconds
        if self._end is None:
            self._end = clean, deadline
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(deadline_seconds)
        self._settler.join(deadline - time.monotonic())
        return self._settler.is_done and not self._waiting_bytes

    def _last(self) -> _Waiting:
        """Where the next item goes; the lock is held."""
        last = self._queue[-1]
        if last.since is None:
            last.since = time.time(), time.monotonic()
        return last

    def _put(self, items: list[Record], record: Record) -> None:
        if len(items) >= MAX_WAITING_RECORDS:
            self._dropped_records += 1
            return
        items.append(record)
        self._wake.set()

    # --- how it is doing ----------------------------------------------------------------------------------------------

    def _stall(self) -> tuple[float | None, str | None]:
        """Since when nothing was persisted, and why; the lock is held."""
        since = self._committing.since if self._committing is not None else self._queue[0].since
        reason = next(iter(self._troubles.values()), None)
        is_late = since is not None and time.monotonic() - since[1] > STALL_SECONDS
        if since is None or not is_late:
            return None, reason
        return since[0], reason or f"the disk has not answered for {time.monotonic() - since[1]:.0f} s"

    def _note_trouble(self, about: str, reason: str | None) -> None:
        with self._lock:
            before = self._troubles.pop(about, None)
            if reason is not None:
                self._troubles[about] = reason
        if before is None and reason is not None:
            logger.warning("%s: the %s cannot be written: %s", self.folder.path, about, reason)
        if before is not None and reason is None:
            self._say_status()

    def _notice_stall(self) -> None:
        """The threads cannot say that they hang; whoever brings more does it for them."""
        now = time.monotonic()
        if now - self._noticed > NOTICE_SECONDS:
            self._noticed = now
            self._say_status()

    def _say_status(self) -> None:
        status = self.status()
        is_stalled = status.not_persisted_since is not None
        now = (is_stalled, next(iter(self._troubles.values()), None) if is_stalled else None)
        if now != self._said:
            self._said = now
            self._on_status(status)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - top of thread
            logger.warning("the store's thread has ended: %r", error)
            self._note_trouble("journal", f"the store's thread has ended: {error!r}")

    def _work(self) -> None:
        self._recall()
        is_well = True
        while is_well and self._end is None:
            self._wake.wait(1.0)
            self._wake.clear()
            is_well = self._turn()
            if self._end is None:
                time.sleep(COMMIT_SECONDS)
        if is_well and self._turn():
            self._settler.settle(Settlement(self._file_number, self._file_rows, self._resources, is_last=True))
        self._close_files()
        clean, deadline = self._end or (False, 0.0)
        self._settler.finish(clean=clean and not self._waiting_bytes, deadline=deadline)

    def _recall(self) -> None:
        """Learn from the journal of a resumed run who its sessions are."""
        for entry in read_journal(self.folder.journal_files()):
            if isinstance(entry, Frame):
                self._roll.take(entry.session, entry.data)
            elif isinstance(entry, RollCall):
                self._roll.load(entry.data)
        rows = sum(records.row_counts(self.table.files))
        self.table.replace_files(self.table.files, added_rows=rows)

    def _turn(self) -> bool:
        """Write everything that waits; False when the deadline of `close` came before the disk was ready."""
        while (waiting := self._take()) is not None:
            if not self._persist(waiting):
                return False
        self._want_checkpoint()
        self._say_status()
        return True

    def _take(self) -> _Waiting | None:
        with self._lock:
            if self._queue[0].since is None and len(self._queue) == 1:
                return None
            waiting = self._queue.popleft()
            if not self._queue:
                self._queue.append(_Waiting())
            self._committing = waiting
            return waiting

    def _persist(self, waiting: _Waiting) -> bool:
        """Commit, again and again while the disk refuses."""
        while True:
            try:
                self._commit(waiting)
            except OSError as error:
                self._close_files()
                with contextlib.suppress(OSError):
                    self.folder.make_parts()  # somebody may have removed them
                self._note_trouble("journal", error.strerror or str(error))
                self._say_status()
                if self._end is not None and time.monotonic() + RETRY_SECONDS > self._end[1]:
                    return False
                time.sleep(RETRY_SECONDS)
                continue
            with self._lock:
                self._committing = None
                self._commits += 1
            self._note_trouble("journal", None)
            return True

    def _commit(self, waiting: _Waiting) -> None:
        """Every part is done once: what has succeeded is taken off before the next begins."""
        if waiting.frames:
            self._open_journal().append(map(pack_frame, waiting.frames))
            self._commit_done(waiting)
        if waiting.durable:
            durable, waiting.durable = waiting.durable, {}
            self._on_durable(durable)
        self._file_rows += waiting.rows
        waiting.rows = 0
        if waiting.checkpoint is not None:
            self._rotate(waiting.checkpoint, waiting)
            waiting.checkpoint = None
        if waiting.events:
            self._open_events().append([records.event_line(record) for record in waiting.events])
            waiting.events = []
        self._resources += waiting.resources
        waiting.resources = []
        if waiting.epochs:
            self._settler.add_epochs(waiting.epochs)
            waiting.epochs = []
        self._write_files(waiting)

    def _commit_done(self, waiting: _Waiting) -> None:
        for frame in waiting.frames:
            self._roll.take(frame.session, frame.data)
        waiting.frames = []
        with self._lock:
            self._waiting_bytes -= waiting.size_bytes
        waiting.size_bytes = 0

    def _write_files(self, waiting: _Waiting) -> None:
        for path in list(waiting.files):
            try:
                data, private = waiting.files[path]
                self.folder.write_whole(path, data, private=private)
            except StoreError as error:
                logger.warning("%s", error)
            del waiting.files[path]

    def _rotate(self, state: bytes, waiting: _Waiting) -> None:
        """Begin a journal file with the state; what came before goes to the settler."""
        self._roll.place(self.table.snapshot().paths)
        head = [pack(CHECKPOINT, state), pack(ROLL, self._roll.pack())]
        following = AppendFile(self._path(self._file_number + 1), is_new=False)
        try:
            following.append(head if not following.size else ())
            sync_path(self.folder.journal)
        except OSError:
            following.close()
            raise
        if self._file is not None:
            self._file.close()
        job = Settlement(self._file_number, self._file_rows, self._resources + waiting.resources)
        self._file, self._file_number, self._file_rows, self._resources = following, self._file_number + 1, 0, []
        waiting.resources = []
        self._file_since, self._checkpoint_asked, self._head_bytes = time.monotonic(), False, following.size
        self._settler.settle(job)

    def _want_checkpoint(self) -> None:
        size = self._file.size if self._file else 0
        is_due = time.monotonic() - self._file_since > ROTATE_SECONDS and size > self._head_bytes
        if self._checkpoint_asked or self._settler.backlog > MOST_BACKLOG or self._end is not None:
            return
        if self._is_resumed or self._file_rows >= ROTATE_ROWS or size >= ROTATE_BYTES or is_due:
            self._checkpoint_asked, self._is_resumed = True, False
            self._on_checkpoint_wanted()

    def _open_journal(self) -> AppendFile:
        if self._file is None:
            self.folder.make_parts()
            self._file = AppendFile(self._path(self._file_number))
            sync_path(self.folder.journal)
        return self._file

    def _open_events(self) -> AppendFile:
        if self._event_file is None:
            self._event_file = AppendFile(self.folder.events)
            if not self._event_file.ends_in(b"\n"):
                self._event_file.append([b"\n"])
        return self._event_file

    def _close_files(self) -> None:
        files: Iterable[AppendFile | None] = (self._file, self._event_file)
        self._file = self._event_file = None
        for file in files:
            if file is not None:
                file.close()

    def _path(self, number: int) -> Path:
        return self.folder.journal / journal_name(number)
