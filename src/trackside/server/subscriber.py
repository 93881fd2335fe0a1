"""One client of the event stream and what waits to be sent to it."""

import asyncio
from collections import deque

QUEUE_BYTES = 2 * 1024 * 1024
QUEUE_FRAMES = 1024


class Subscriber:
    """A bounded queue of frames. When it is full everything in it goes, and the client gets a fresh state instead.

    Threads: the event loop's only.
    """

    def __init__(self) -> None:
        self.stale = False
        """Whether what was sent so far is not whole: a snapshot is due before anything else."""
        self.closed = False
        self.gone = False
        """Whether the client has closed the connection."""
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()

    def put(self, frame: bytes) -> bool:
        """Queue one frame; False when the client is behind and what waited for it was dropped."""
        if self.stale:
            return True
        if (self._bytes + len(frame) > QUEUE_BYTES and self._frames) or len(self._frames) >= QUEUE_FRAMES:
            self.mark_stale()
            return False
        self._frames.append(frame)
        self._bytes += len(frame)
        self._ready.set()
        return True

    def put_all(self, frames: list[bytes]) -> None:
        """Queue frames that belong together, whatever their size."""
        self._frames.extend(frames)
        self._bytes += sum(map(len, frames))
        self._ready.set()

    def mark_stale(self) -> None:
        """Drop what waits and ask for a snapshot."""
        self._frames.clear()
        self._bytes = 0
        self.stale = True
        self._ready.set()

    def close(self) -> None:
        """What waits is still sent, then the stream ends."""
        self.closed = True
        self._ready.set()

    def leave(self) -> None:
        """The client has gone; nothing more can be sent."""
        self.gone = True
        self._ready.set()

    def take(self) -> bytes:
        """Everything that waits, as one piece."""
        taken = b"".join(self._frames)
        self._frames.clear()
        self._bytes = 0
        if not self.closed:
            self._ready.clear()
        return taken

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to do; False after `seconds` without."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return False
        return True
