"""A thread for calls that may never come back: of a driver, of a shared disk."""

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

PATIENCE_S = 3.0
"""How long a call is waited for; opening the driver on a machine of many GPUs may take a second or two."""

T = TypeVar("T")


class _Call(Generic[T]):
    def __init__(self, job: Callable[[], T]) -> None:
        self.done = threading.Event()
        self.answer: T | None = None
        self.error: Exception | None = None
        self._job = job

    def make(self) -> None:
        try:
            self.answer = self._job()
        except Exception as error:  # noqa: BLE001 - top of thread
            self.error = error
        self.done.set()


class Patience:
    """Makes calls in a thread of its own, and waits for each of them only so long.

    While one is out, nothing else is asked and every answer is None; once it has come back, all is as before. The thread
    begins with the first call.

    Threads: one caller. Blocks: up to `limit_s`, and not at all while a call is out.
    """

    def __init__(self, limit_s: float = PATIENCE_S) -> None:
        self._limit_s = limit_s
        self._calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._out: _Call[Any] | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_silent(self) -> bool:
        """Whether a call has been out for longer than we wait."""
        return self._out is not None and not self._out.done.is_set()

    def ask(self, job: Callable[[], T]) -> T | None:
        """Return what `job` returns, or None when it does not come back in time. Raises what it raises."""
        if self.is_silent:
            return None
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="trackside-driver", daemon=True)
            thread.start()
            self._thread = thread
        call = _Call(job)
        self._out = call
        self._calls.put(call)
        if not call.done.wait(self._limit_s):
            return None
        self._out = None
        if call.error is not None:
            raise call.error
        return call.answer

    def close(self) -> None:
        """Let the thread end, once it is back. Idempotent; a later call begins another."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread, self._out, self._calls = None, None, queue.SimpleQueue()

    def _work(self) -> None:
        calls = self._calls
        while (call := calls.get()) is not None:
            call.make()
