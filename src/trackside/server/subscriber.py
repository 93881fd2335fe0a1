"""One client of the event stream and what waits to be sent to it."""

import asyncio
import math
from collections import deque

QUEUE_BYTES = 2 * 1024 * 1024
QUEUE_FRAMES = 1024
PIECE_BYTES = 65_536
"""What is handed on at once: a client that reads nothing holds no more than this of its own."""


class Subscriber:
    """A bounded queue of frames. When it is full everything in it goes, and the client gets a fresh state instead.

    Frames are shared by all clients. A whole state is no part of the bound, and is sent to its end before it is replaced, or
    a slow client would never see the end of any.

    Threads: the event loop's only.
    """

    def __init__(self) -> None:
        self.stale = False
        """Whether what was sent so far is not whole: a snapshot is due before anything else."""
        self.closed = False
        self.gone = False
        """Whether the client has closed the connection."""
        self._state: deque[bytes] = deque()
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._rest = memoryview(b"")
        """Of a frame that is under way."""
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
        self._state.extend(frames)
        self._ready.set()

    def mark_stale(self) -> None:
        """Drop what waits, and ask for a snapshot when the one under way has been sent."""
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

    @property
    def is_due(self) -> bool:
        """Whether a snapshot is to be put in now."""
        return self.stale and not self._state

    def take(self, most: float = math.inf) -> bytes:
        """What waits, as one piece of up to `most` bytes."""
        pieces: list[bytes | memoryview] = []
        room = most
        while room > 0 and (frame := self._next()):
            piece = frame if len(frame) <= room else frame[: int(room)]
            self._rest = frame[len(piece) :]
            pieces.append(piece)
            room -= len(piece)
        if not self.has_more and not self.closed:
            self._ready.clear()
        return b"".join(pieces)

    @property
    def has_more(self) -> bool:
        """Whether anything is left to send."""
        return bool(self._rest or self._state or self._frames or self.stale)

    def _next(self) -> memoryview:
        if self._rest:
            return self._rest
        if self._state:
            return memoryview(self._state.popleft())
        if not self._frames:
            return memoryview(b"")
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        return memoryview(frame)

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to do; False after `seconds` without."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return False
        return True
