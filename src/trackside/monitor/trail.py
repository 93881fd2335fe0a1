"""The trail: every frame is in a file that outlives this process before it is sent, until the controller has it on disk."""

import logging
from collections import deque
from pathlib import Path
from typing import NamedTuple

from trackside.monitor.spool import Spool, memory_folder, memory_share, private_folder
from trackside.wire.spool import HEAD_BYTES, stem_of

logger = logging.getLogger("trackside.monitor")

MAX_BYTES = 2 * 1024 * 1024 * 1024
DISK_FILE_BYTES = 8 * 1024 * 1024
MEMORY_FILES = 2


class Place(NamedTuple):
    """Where a frame lies."""

    spool: Spool
    at: int
    length: int


class Trail:
    """A row of spool files, the last of which grows; one whose frames are no longer wanted is removed.

    While the link is well they lie in the machine's memory file system, a fraction of a megabyte in all; what waits longer,
    or finds no room there, goes to the temporary folder.

    Args:
        session: Names the files.
        hello: First frame of each.

    Threads: the send thread only. Blocks: for the local disk where there is no memory file system, or its share is full.
    """

    def __init__(self, session: bytes, hello: bytes) -> None:
        self._stem, self._hello = stem_of(session), hello
        self._spools: deque[Spool] = deque()
        self._in_memory: set[Spool] = set()
        self._file_bytes = memory_share() // 4
        self._number = 0
        self._is_sealed = False
        """Whether the next frame begins a new file."""
        self._has_failed = False

    def greet(self, hello: bytes) -> None:
        """From now on another hello comes first."""
        self._hello, self._is_sealed = hello, True

    def begin(self) -> None:
        """Have the first file now: without one nobody knows whose the session's ring is. Raises: never."""
        try:
            self._spool_for(0)
        except OSError as error:
            logger.debug("trackside: no file to keep frames in: %s", error)

    def append(self, frame: bytes) -> Place | None:
        """Keep a frame; None when there is no place for it."""
        try:
            spool = self._spool_for(len(frame) + HEAD_BYTES)
            if spool is None:
                return None
            place = Place(spool, spool.append(frame), len(frame))
        except OSError as error:
            if not self._has_failed:
                logger.debug("trackside: a frame is in memory only: %s", error)
            self._has_failed = True
            return None
        spool.waiting += 1
        return place

    def forget(self, place: Place) -> None:
        """This frame is not wanted any more."""
        spool = place.spool
        spool.waiting -= 1
        if spool.waiting:
            return
        if spool is not self._spools[-1]:
            self._drop(spool)
        elif spool.size > (self._file_bytes if spool in self._in_memory else DISK_FILE_BYTES) // 2:
            spool.clear()

    def is_volatile(self, place: Place) -> bool:
        """Whether a frame would not outlive the machine."""
        return place.spool in self._in_memory

    @property
    def paths(self) -> list[Path]:
        """Its files, oldest first."""
        return [spool.path for spool in self._spools]

    def leave(self, places: set[Spool]) -> list[Path]:
        """Leave these files for others, and remove the rest; return where they lie. Raises: OSError."""
        left = []
        while self._spools:
            spool = self._spools.popleft()
            if spool in places:
                left.append(spool.leave())
            else:
                _remove(spool)
        return left

    def close(self) -> None:
        """Remove every file. Idempotent."""
        while self._spools:
            _remove(self._spools.popleft())
        self._in_memory.clear()

    def _spool_for(self, length: int) -> Spool | None:
        """The file that takes so many bytes more. Raises: OSError."""
        if sum(spool.size for spool in self._spools) + length > MAX_BYTES:
            return None
        last = self._spools[-1] if self._spools else None
        if last is not None and not self._is_sealed:
            limit = self._file_bytes if last in self._in_memory else DISK_FILE_BYTES
            if last.size + length <= limit:
                return last
        spool = self._new_in_memory(length) or Spool(private_folder(), self._next_name(), self._hello)
        self._spools.append(spool)
        self._is_sealed = False
        if last is not None and not last.waiting:
            self._drop(last)
        return spool

    def _drop(self, spool: Spool) -> None:
        self._spools.remove(spool)
        self._in_memory.discard(spool)
        _remove(spool)

    def _new_in_memory(self, length: int) -> Spool | None:
        if len(self._in_memory) >= MEMORY_FILES or length + len(self._hello) + HEAD_BYTES > self._file_bytes:
            return None
        try:
            folder = memory_folder()
            spool = Spool(folder, self._next_name(), self._hello) if folder is not None else None
        except OSError as error:
            logger.debug("trackside: nothing is kept in memory: %s", error)
            self._file_bytes = 0
            return None
        if spool is not None:
            self._in_memory.add(spool)
        return spool

    def _next_name(self) -> str:
        self._number += 1
        return f"{self._stem}-{self._number:06d}"


def _remove(spool: Spool) -> None:
    try:
        spool.remove()
    except OSError as error:
        logger.debug("trackside: %s could not be removed: %s", spool.path, error)
