"""Calls that wait for a disk, made where nobody else waits with them: a shared mount may hang for minutes, or for good."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trackside.errors import DiskSilentError

ANSWER_S = 10.0
"""How long one call is waited for; a query of ten million points takes a tenth of a second."""
LEAVE_S = 1.0
_LOOK_S = 0.25

T = TypeVar("T")


class _Call(Generic[T]):
    """One call, and what came of it."""

    def __init__(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.began: float | None = None
        self.outcome: asyncio.Future[T] = loop.create_future()
        self._work = work
        self._loop = loop

    def make(self) -> None:
        self.began = time.monotonic()
        try:
            answer, error = self._work(), None
        except Exception as raised:  # noqa: BLE001 - top of thread
            answer, error = None, raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._settle, answer, error)

    def _settle(self, answer: Any, error: Exception | None) -> None:
        if self.outcome.done():
            return
        if error is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(answer)


class DiskThreads:
    """A few daemon threads that make calls one after the other.

    While every one of them is in a call that has been out for too long, further calls fail at once; when one comes back, all
    is as before. Nobody waits for them when the process ends, unlike for those of an executor.

    Args:
        name: Of the threads.
        count: How many; they begin with the first call.
        limit_s: How long a call may be out.

    Threads: `ask` belongs to an event loop; the rest to any.
    """

    def __init__(self, name: str, count: int = 1, limit_s: float = ANSWER_S) -> None:
        self._name, self._count, self._limit_s = name, count, limit_s
        self._calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._out: dict[int, _Call[Any]] = {}
        """The present call of each thread that has one."""
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def is_silent(self) -> bool:
        """Whether no thread is left that the disk has not kept for too long."""
        out = list(self._out.values())
        return len(out) >= self._count and all(self._is_late(call) for call in out)

    async def ask(self, work: Callable[[], T]) -> T:
        """What `work` returns, made in one of the threads. Raises what it raises.

        Raises:
            DiskSilentError: It is not back in time, or cannot begin because nothing else comes back.
        """
        if self._is_closed or self.is_silent:
            raise DiskSilentError(self._words())
        self._begin()
        call = _Call(work, asyncio.get_running_loop())
        self._calls.put(call)
        try:
            while not call.outcome.done():
                await asyncio.wait([call.outcome], timeout=_LOOK_S)
                if not call.outcome.done() and self._is_hopeless(call):
                    raise DiskSilentError(self._words())
            return call.outcome.result()
        finally:
            call.outcome.cancel()

    def close(self, wait_s: float = LEAVE_S) -> bool:
        """Let the threads end; whether they all have. Idempotent. Blocks: up to `wait_s`."""
        if not self._is_closed:
            self._is_closed = True
            for _ in self._threads:
                self._calls.put(None)
        deadline = time.monotonic() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _begin(self) -> None:
        while len(self._threads) < self._count:
            name = f"{self._name}-{len(self._threads)}"
            self._threads.append(
                threading.Thread(target=self._work, args=(len(self._threads),), name=name, daemon=True)
            )
            self._threads[-1].start()

    def _work(self, number: int) -> None:
        while (call := self._calls.get()) is not None:
            if call.outcome.done():
                continue
            self._out[number] = call
            call.make()
            del self._out[number]

    def _is_hopeless(self, call: _Call[Any]) -> bool:
        return self._is_late(call) or self.is_silent or self._is_closed

    def _is_late(self, call: _Call[Any]) -> bool:
        return call.began is not None and time.monotonic() - call.began > self._limit_s

    def _words(self) -> str:
        return f"the disk of the run folder has not answered for {self._limit_s:.0f} s, look at its mount; what is in memory is still shown"
