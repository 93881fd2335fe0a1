"""The rank's end of the ring: a copy of each call that is in no frame yet, where `kill -9` does not reach it.

It lies in the machine's memory file system and nowhere else: on a disk the kernel may make the training thread wait while it
writes a page back. Its pages are had in advance, so that a file system that fills up cannot kill the process.
"""

import logging
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from trackside.monitor.buffer import Buffer, keep_nothing
from trackside.monitor.spool import memory_folder, memory_share
from trackside.wire.ring import HEAD, MARK, PAGE_BYTES, THROUGH_AT, process_namespace
from trackside.wire.spool import RING_SUFFIX, hold, stem_of

logger = logging.getLogger("trackside.monitor")


def leave_calls(folder: Path, session: bytes, calls: Iterable[bytes], through: int, next_seq: int) -> Path:
    """Write a ring of calls that get into no frame any more, for whoever takes it in.

    Args:
        folder: Where the session's other files lie.
        session: Whose.
        calls: Encoded.
        through: All calls up to this number are in frames.
        next_seq: Of the frame that these will be.

    Raises: OSError. Blocks: for the disk.
    """
    half = b"".join(calls)
    path = folder / f"{stem_of(session)}{RING_SUFFIX}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as ring:  # noqa: PTH123 - flags that `Path.open` has no word for
            ring.write(HEAD.pack(MARK, len(half), process_namespace(), through, next_seq).ljust(PAGE_BYTES, b"\0"))
            ring.write(half)
            ring.truncate(PAGE_BYTES + 2 * len(half))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


class Ring:
    """Two halves, written in turn: while one fills up, the calls of the other get into frames.

    A call is one `write` into the present half, which is one step for threads and signal handlers; one that finds no room
    is not copied, and merely has no second life.

    Args:
        session: Names the file.
        buffer: Whose calls are copied, from the first turn on.

    Threads: the send thread's, but for the buffer's `keep`.
    """

    def __init__(self, session: bytes, buffer: Buffer) -> None:
        self._name, self._buffer = f"{stem_of(session)}{RING_SUFFIX}", buffer
        self._is_tried = False
        self._path: Path | None = None
        self._half_bytes = 0
        self._page: mmap.mmap | None = None
        self._halves: list[mmap.mmap] = []
        self._present = self._turns_since = 0

    def turn(self, through: int, next_seq: int) -> None:
        """All calls up to a number are in frames that outlive us, the next of which has this sequence. Raises: never."""
        if not self._is_tried:
            self._is_tried = True
            try:
                self._open()
            except (OSError, ValueError) as error:
                logger.debug("trackside: no ring: %s", error)
        if self._page is None:
            return
        self._page[THROUGH_AT : HEAD.size] = through.to_bytes(8, "little") + next_seq.to_bytes(8, "little")
        self._turns_since += 1
        idle = self._halves[1 - self._present]
        if self._turns_since > 2 and idle.tell():
            idle.seek(0)
            idle[:] = bytes(self._half_bytes)
        elif not idle.tell() and self._halves[self._present].tell() > self._half_bytes // 2:
            self._present, self._turns_since = 1 - self._present, 0
        self._buffer.keep = self._halves[self._present].write  # it may have been full

    def close(self) -> None:
        """Nothing is copied any more, and nothing is left. Idempotent. Threads: any."""
        self._is_tried = True
        self._buffer.keep = keep_nothing
        self._page, self._halves = None, []  # each has a descriptor, which goes with the last call that still writes
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _open(self) -> None:
        folder, pages = memory_folder(), memory_share() // 4 // mmap.PAGESIZE
        if folder is None or not pages:
            return
        size = self._half_bytes = pages * mmap.PAGESIZE
        path = folder / self._name
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            hold(file)
            os.posix_fallocate(file, 0, PAGE_BYTES + 2 * size)
            page = mmap.mmap(file, PAGE_BYTES)
            self._halves = [mmap.mmap(file, size, offset=PAGE_BYTES + i * size) for i in (0, 1)]
        except (OSError, ValueError):
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        page[: HEAD.size] = HEAD.pack(MARK, size, process_namespace(), 0, 1)
        for half in self._halves:
            half[:] = bytes(size)  # no page is met for the first time by `log()`
        self._path, self._page = path, page
        self._buffer.keep = self._halves[0].write
