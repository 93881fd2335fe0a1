"""Frames in their durable order until the controller has them on disk: first in memory, then in a spool file."""

import os
import tempfile
from collections import deque
from pathlib import Path

from trackside.wire.spool import SUFFIX, pack_spooled, read_spool

MEMORY_BYTES = 32 * 1024 * 1024
SPOOL_BYTES = 2 * 1024 * 1024 * 1024


class Outbox:
    """Sequenced frames that are not acknowledged.

    The oldest lie in memory, younger ones in the spool once memory is full; they come back as memory empties. Beyond
    the spool's bound frames are dropped and counted.

    Threads: the send thread only. Blocks: for the local disk once memory is full.
    """

    def __init__(self, session: bytes) -> None:
        self._session = session
        self._frames: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._sent = 0
        """How many of `_frames`, from the left, are on their way."""
        self._spool: Path | None = None
        self._spooled: deque[tuple[int, int, int]] = deque()
        """(seq, offset, length) of spooled frames that are not in memory."""
        self._spool_size = 0
        self.hello: bytes = b""
        self.folder: Path | None = None
        """Where a spool file goes; None: the temporary folder."""
        self.next_seq = 1
        self.dropped_frames = 0

    def __len__(self) -> int:
        return len(self._frames) + len(self._spooled)

    def add(self, frame: bytes, seq: int) -> None:
        """Take the next frame."""
        if not self._spooled and self._bytes + len(frame) <= MEMORY_BYTES:
            self._frames.append((seq, frame))
            self._bytes += len(frame)
            return
        try:
            self._to_spool(frame, seq)
        except OSError:
            self.dropped_frames += 1

    def acknowledge(self, durable_seq: int) -> None:
        """Forget what is on the controller's disk."""
        while self._frames and self._frames[0][0] <= durable_seq:
            self._bytes -= len(self._frames.popleft()[1])
            self._sent = max(0, self._sent - 1)
        while self._spooled and self._spooled[0][0] <= durable_seq:
            self._spooled.popleft()
        self._refill()
        if not self._spooled and self._spool is not None:
            self._drop_spool()

    def rewind(self, durable_seq: int) -> None:
        """Begin to send again with the first frame after `durable_seq`."""
        self.acknowledge(durable_seq)
        self._sent = 0

    def next_unsent(self) -> bytes | None:
        """The next frame to send; None when all are on their way."""
        return self._frames[self._sent][1] if self._sent < len(self._frames) else None

    def mark_sent(self) -> None:
        """`next_unsent` is on its way."""
        self._sent += 1

    def leave_on_disk(self) -> Path | None:
        """At the end: write what was not acknowledged to the spool; return where it lies, None when nothing is left."""
        if not len(self):
            return None
        try:
            path = self._new_file()
            with path.open("ab") as file:
                file.write(pack_spooled(self.hello))
                for _, frame in self._frames:
                    file.write(pack_spooled(frame))
                for entry in self._spooled:
                    file.write(pack_spooled(self._read(entry)))
        except OSError:
            return None
        self._drop_spool()
        final = path.with_suffix(SUFFIX)
        path.replace(final)
        return final

    def close(self) -> None:
        """Remove a spool file that is not needed any more."""
        self._drop_spool()

    def _refill(self) -> None:
        while self._spooled and self._bytes < MEMORY_BYTES // 2:
            entry = self._spooled.popleft()
            try:
                frame = self._read(entry)
            except OSError:
                self.dropped_frames += 1
                continue
            self._frames.append((entry[0], frame))
            self._bytes += len(frame)

    def _to_spool(self, frame: bytes, seq: int) -> None:
        if self._spool_size + len(frame) > SPOOL_BYTES:
            self.dropped_frames += 1
            return
        if self._spool is None:
            self._spool = self._new_file()
        with self._spool.open("ab") as file:
            file.write(frame)
        self._spooled.append((seq, self._spool_size, len(frame)))
        self._spool_size += len(frame)

    def _read(self, entry: tuple[int, int, int]) -> bytes:
        if self._spool is None:
            raise FileNotFoundError("no spool file")
        with self._spool.open("rb") as file:
            file.seek(entry[1])
            return file.read(entry[2])

    def _new_file(self) -> Path:
        folder = self.folder or Path(tempfile.gettempdir())
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            folder = Path(tempfile.gettempdir())
        handle, name = tempfile.mkstemp(prefix=f"trackside-{self._session.hex()[:12]}-", suffix=".part", dir=folder)
        os.close(handle)
        return Path(name)

    def _drop_spool(self) -> None:
        if self._spool is not None:
            self._spool.unlink(missing_ok=True)
        self._spool, self._spool_size = None, 0


__all__ = ["Outbox", "read_spool"]
