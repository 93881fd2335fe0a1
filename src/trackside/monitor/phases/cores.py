"""Waiting for a CPU core: when the training thread could have gone on and the scheduler had none for it."""

import os
import threading

_ABOUT = "/proc/thread-self/schedstat"
LOOK_S = 0.05
"""A step is looked at when so much time has passed since the last one that was: of long steps each, of short ones some."""
_MOST_BYTES = 64


CoreReading = tuple[bytes, bool | None]
"""The counts of a thread, and whether the step that begins here is looked at; None: none does."""


class CoreWait:
    """The scheduler's own count of that waiting, read where it changes hands: the text as it is, for the send thread.

    A thread's wall time holds it, its CPU time does not; neither does a sleep, a read from a slow disk or a wait for a
    peer. What it had to wait for in a virtual machine whose host is busy is not in it.

    Source: the second field of `/proc/thread-self/schedstat`.
    Threads: the one that reads first; another one begins anew. Blocks: never.
    """

    __slots__ = ("_file", "_inode", "_pid", "_thread", "is_looking", "look_at")

    def __init__(self) -> None:
        self._file: int | None = None
        self._thread: int | None = None
        self._inode = self._pid = 0
        self.look_at = float("-inf")
        """When the next step is looked at, by the monotonic clock."""
        self.is_looking = False
        """Whether the present step is looked at."""

    def turn(self, now: float) -> CoreReading | None:
        """A step ends, and another may begin; None when there is nothing to read for either. `now` is monotonic."""
        was_looking, self.is_looking = self.is_looking, now >= self.look_at
        if self.is_looking:
            self.look_at = now + LOOK_S
        elif not was_looking:
            return None
        text = self.read()
        return None if text is None else (text, self.is_looking)

    def read(self) -> bytes | None:
        """The counts of this thread; None where the system keeps none."""
        if self._thread != threading.get_ident():
            self._open()
        if self._file is None:
            return None
        try:
            return os.pread(self._file, _MOST_BYTES, 0)
        except OSError:  # a script may close every file there is
            self._file = None
            return None

    def _open(self) -> None:
        self.close()
        self._thread, self._pid = threading.get_ident(), os.getpid()
        try:
            self._file = os.open(_ABOUT, os.O_RDONLY | os.O_CLOEXEC)
            self._inode = os.fstat(self._file).st_ino
        except OSError:
            self._file = None

    def close(self) -> None:
        """Give the file back, unless its number means another one by now. Idempotent."""
        file, self._file, self._thread = self._file, None, None
        if file is None or self._pid != os.getpid():
            return
        try:
            if os.fstat(file).st_ino == self._inode:
                os.close(file)
        except OSError:
            return


def waited_ns(text: bytes) -> int | None:
    """Nanoseconds since the thread began; None when it does not say."""
    fields = text.split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None
