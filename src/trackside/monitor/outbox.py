"""Frames in their durable order until the controller has them on disk: first in memory, then in a spool file."""

import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from trackside.monitor.spool import Spool, private_folder

MEMORY_BYTES = 32 * 1024 * 1024
LIVE_PART = "1"
LAST_PART = "0"


class Outbox:
    """Sequenced frames that are not acknowledged.

    The oldest lie in memory, younger ones in the spool once memory is full; they come back as memory empties. Beyond
    the spool's bound frames are refused.

    Threads: the send thread only. Blocks: for the local disk once memory is full.
    """

    def __init__(self, session: bytes, memory_bytes: int = MEMORY_BYTES) -> None:
        self._stem = f"trackside-{session.hex()}"
        self._memory_bytes = memory_bytes
        self._frames: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._sent = 0
        """How many of `_frames`, from the left, are on their way."""
        self._spool: Spool | None = None
        self._spooled: deque[tuple[int, int, int]] = deque()
        """(seq, offset, length) of spooled frames that are not in memory."""
        self.hello = b""
        """First frame of every spool file."""
        self.may_spool = True
        """False where nobody would ever take the file in: without a controller."""
        self.next_seq = 1
        self.lost_frames = 0
        """Frames that were taken and could not be read back from the spool."""

    def __len__(self) -> int:
        return len(self._frames) + len(self._spooled)

    def add(self, frame: bytes, seq: int) -> bool:
        """Take the next frame; False when there is no place for it."""
        if not self._spooled and (self._bytes + len(frame) <= self._memory_bytes or not self._frames):
            self._frames.append((seq, frame))
            self._bytes += len(frame)
            return True
        try:
            return self.may_spool and self._to_spool(frame, seq)
        except OSError:
            return False

    def acknowledge(self, durable_seq: int) -> None:
        """Forget what is on the controller's disk."""
        while self._frames and self._frames[0][0] <= durable_seq:
            self._bytes -= len(self._frames.popleft()[1])
            self._sent = max(0, self._sent - 1)
        while self._spooled and self._spooled[0][0] <= durable_seq:
            self._spooled.popleft()
        self._refill()
        if not self._spooled:
            self._drop_spool()

    def rewind(self, durable_seq: int) -> None:
        """Begin to send again with the first frame after `durable_seq`."""
        self.acknowledge(durable_seq)
        self._sent = 0

    def next_unsent(self) -> bytes | None:
        """The next frame to send; None when all in memory are on their way."""
        return self._frames[self._sent][1] if self._sent < len(self._frames) else None

    def mark_sent(self) -> None:
        """`next_unsent` is on its way."""
        self._sent += 1

    def leave_on_disk(self, folder: Path | None) -> list[Path]:
        """At the end: leave what was not acknowledged in files; return them, in the order to take them in.

        Args:
            folder: Where they are looked for; None: the temporary folder.

        Raises:
            OSError: they could not be written.
        """
        left: list[Path] = []
        if self._frames:
            last = Spool(_usable(folder), f"{self._stem}-{LAST_PART}", self.hello)
            for _, frame in self._frames:
                last.append(frame)
            left.append(last.leave())
        if self._spooled and self._spool is not None:
            left.append(self._spool.leave())
            self._spool = None
        self.close()
        return left

    def close(self) -> None:
        """Forget everything. Idempotent."""
        self._frames.clear()
        self._spooled.clear()
        self._drop_spool()

    def _refill(self) -> None:
        while self._spooled and self._bytes < self._memory_bytes // 2:
            seq, at, length = self._spooled.popleft()
            frame = self._read(at, length)
            if frame is None:
                self.lost_frames += 1
                continue
            self._frames.append((seq, frame))
            self._bytes += length

    def _read(self, at: int, length: int) -> bytes | None:
        try:
            return self._spool.read(at, length) if self._spool is not None else None
        except OSError:
            return None

    def _to_spool(self, frame: bytes, seq: int) -> bool:
        if self._spool is None:
            self._spool = Spool(private_folder(), f"{self._stem}-{LIVE_PART}", self.hello)
        entry = self._spool.append(frame)
        if entry is None:
            return False
        self._spooled.append((seq, *entry))
        return True

    def _drop_spool(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.remove()


def _usable(folder: Path | None) -> Path:
    """The first folder that can be had."""
    for candidate in _candidates(folder):
        try:
            candidate.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        return candidate
    return Path(tempfile.gettempdir())


def _candidates(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    yield private_folder()
