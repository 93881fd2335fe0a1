"""A text stream that keeps nobody waiting: the file or terminal behind it may hang, a shared disk that a job writes to among them."""

import contextlib
import io
import queue
import threading
import time
from typing import Self, TextIO

MOST_PIECES = 10_000
END_S = 1.0


class PatientStream(io.TextIOBase):
    """Passes text on from a daemon thread; what there is no room for is dropped, which is said when there is again.

    Args:
        target: Where to.

    Threads: any. Blocks: never, `close` excepted.
    """

    def __init__(self, target: TextIO) -> None:
        self._target = target
        self._pieces: queue.Queue[str | None] = queue.Queue(MOST_PIECES)
        self._dropped = 0
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name="trackside-stderr", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Pass it on soon; after the end it is nobody's."""
        try:
            self._pieces.put_nowait(text)
        except queue.Full:
            self._dropped += 1
        return len(text)

    def flush(self) -> None:
        """Nothing: whoever prints does not wait."""

    def close(self) -> None:
        """Pass on what waits, and end. Idempotent. Blocks: up to a second."""
        if self._has_ended:
            return
        self._has_ended = True
        deadline = time.monotonic() + END_S
        with contextlib.suppress(queue.Full):
            self._pieces.put(None, timeout=END_S)
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def _run(self) -> None:
        while not (self._has_ended and self._pieces.empty()) and (piece := self._pieces.get()) is not None:
            self._pass_on(piece)
            if self._dropped and self._pieces.empty():
                dropped, self._dropped = self._dropped, 0
                self._pass_on(f"({dropped} pieces of text were dropped here while nobody took them)\n")

    def _pass_on(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # it may be full, gone or closed
            self._target.write(text)
            self._target.flush()
