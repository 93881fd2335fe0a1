"""Sinks of the user's own, found through the entry-point group `trackside.sinks`.

Each runs in a thread of its own behind a bounded queue, so one that blocks delays nobody; what its queue does not take is
counted. One that raises is called again with what comes next. It reads the run through a source whose answers are made on
the event loop.
"""

import asyncio
import contextlib
import importlib.metadata
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from trackside.sinks.protocol import RunSource, Sink
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

log = logging.getLogger("trackside.sinks")

GROUP = "trackside.sinks"
QUEUE_CALLS = 1000
BLOCKED_S = 10.0
"""A call that takes longer is said to block."""
ANSWER_S = 10.0
END_S = 5.0

MakeSink = Callable[[RunSource], Sink]
Failed = Callable[[str, str], None]


class LoopSource:
    """A run source for other threads: every question is answered on the event loop.

    Args:
        source: lives on the loop.
        loop: that owns it.
    """

    def __init__(self, source: RunSource, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._source, name)
        if asyncio.iscoroutinefunction(method):
            return method

        def ask(*arguments: Any) -> Any:
            async def answer() -> Any:
                return method(*arguments)

            return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(ANSWER_S)

        return ask


class PluginSink:
    """A user's sink behind a queue and a thread.

    Args:
        name: of the entry point.
        load: returns what makes the sink; both run in the thread.
        source: given to it.
        failed: called once with (name, reason) when it raises or blocks; from any thread.
    """

    def __init__(self, name: str, load: Callable[[], MakeSink], source: RunSource, failed: Failed) -> None:
        self.name = name
        self.dropped_calls = 0
        self.failed_calls = 0
        self._load = load
        self._source = source
        self._failed = failed
        self._said = False
        self._ending = self._has_ended = False
        self._calls: queue.Queue[tuple[str, tuple[Any, ...]] | None] = queue.Queue(QUEUE_CALLS)
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"trackside-sink-{name}"[:15], daemon=True)
        self._thread.start()

    def register_port(self, port: int | None) -> None:
        self._put("register_port", port)

    def set_graph(self, svg: str | None, graph: object | None, label: str | None, hash: str | None) -> None:
        self._put("set_graph", svg, graph, label, hash)

    def set_metadata(self, text: str) -> None:
        self._put("set_metadata", text)

    def set_hardware(self, text: str) -> None:
        self._put("set_hardware", text)

    def push_resources(self, record: ResourceRecord) -> None:
        self._put("push_resources", record)

    def push_window(self, batch: PointBatch) -> None:
        self._put("push_window", batch)

    def push_epoch(self, record: EpochRecord) -> None:
        self._put("push_epoch", record)

    def push_event(self, record: EventRecord, is_new: bool) -> None:
        self._put("push_event", record, is_new)

    def push_run(self) -> None:
        self._put("push_run")

    async def shut_down(self) -> None:
        """Let it finish, for a few seconds; idempotent."""
        self._put_end()
        await asyncio.to_thread(self._thread.join, END_S)
        if self._thread.is_alive():
            self._fail(f"it did not end within {END_S:.0f} s")

    def _put(self, call: str, *arguments: Any) -> None:
        try:
            self._calls.put_nowait((call, arguments))
        except queue.Full:
            self.dropped_calls += 1
            busy = self._busy_since
            if busy is not None and time.monotonic() - busy > BLOCKED_S:
                self._fail(
                    f"it has blocked for {time.monotonic() - busy:.0f} s; {self.dropped_calls} calls were dropped"
                )

    def _put_end(self) -> None:
        self._ending = True
        with contextlib.suppress(queue.Full):  # then it sees the flag once it has worked off what waits
            self._calls.put_nowait(None)

    def _fail(self, reason: str) -> None:
        if not self._said:
            self._said = True
            self._failed(self.name, reason)

    def _run(self) -> None:
        try:
            sink = self._guard(lambda: self._load()(self._source))
            if sink is None:
                return
            while (call := self._next()) is not None:
                self._guard(partial(self._do, sink, *call))
            self._guard(lambda: asyncio.run(sink.shut_down()))
            self._has_ended = True
        finally:
            if not self._has_ended:
                self._fail("it left its thread before the end")

    def _guard(self, act: Callable[[], Any]) -> Any:
        """Run one piece of the user's code; what it raises is counted, and said the first time."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - top of thread
            self.failed_calls += 1
            if not self._said:
                log.exception("the sink %s has failed", self.name)
            self._fail(f"{type(error).__name__}: {error}")
            return None

    def _next(self) -> tuple[str, tuple[Any, ...]] | None:
        """The next call; None at the end, after all that was taken in."""
        if self._ending and self._calls.empty():
            return None
        return self._calls.get()

    def _do(self, sink: Sink, call: str, arguments: tuple[Any, ...]) -> None:
        self._busy_since = time.monotonic()
        try:
            getattr(sink, call)(*arguments)
        finally:
            self._busy_since = None


def find_plugins() -> Iterable[tuple[str, Callable[[], MakeSink]]]:
    """Name and loader of every sink that an installed distribution offers."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        yield entry.name, entry.load


def start_plugins(source: RunSource, loop: asyncio.AbstractEventLoop, failed: Failed) -> list[PluginSink]:
    """Start every sink there is; one that cannot be loaded is said and left out."""
    guarded: Any = LoopSource(source, loop)

    def report(name: str, reason: str) -> None:
        loop.call_soon_threadsafe(failed, name, reason)

    return [PluginSink(name, load, guarded, report) for name, load in find_plugins()]
