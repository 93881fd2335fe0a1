import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.server.made_run import MadeRun
from trackside.sinks import plugins
from trackside.sinks.plugins import LoopSource, PluginSink, start_plugins
from trackside.sinks.quiet import QuietSink

pytestmark = pytest.mark.usefixtures("leak_check")


class Recorder(QuietSink):
    name = "recorder"

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.ended = False

    def set_metadata(self, text: str) -> None:
        self.lines.append((threading.current_thread().name, text))

    async def shut_down(self) -> None:
        self.ended = True


def run_plugin(make: Callable[[Any], Any], use: Callable[[PluginSink], None]) -> list[tuple[str, str]]:
    failures: list[tuple[str, str]] = []

    async def scene() -> None:
        sink = PluginSink("mine", lambda: make, MadeRun(), lambda name, reason: failures.append((name, reason)))
        use(sink)
        await sink.shut_down()

    asyncio.run(scene())
    return failures


def test_calls_arrive_in_order_in_a_thread_of_their_own():
    recorder = Recorder()

    def use(sink: PluginSink) -> None:
        for number in range(5):
            sink.set_metadata(str(number))

    assert run_plugin(lambda source: recorder, use) == []
    assert [text for _, text in recorder.lines] == list("01234")
    assert {name for name, _ in recorder.lines} == {"trackside-sink-mine"[:15]}
    assert recorder.ended


def test_one_that_raises_is_said_once():
    class Broken(QuietSink):
        def set_metadata(self, text: str) -> None:
            raise RuntimeError("no paint")

    failures = run_plugin(lambda source: Broken(), lambda sink: (sink.set_metadata("a"), sink.set_metadata("b")))
    assert failures == [("mine", "RuntimeError: no paint")]


def test_one_that_cannot_be_made_is_said():
    def make(source: Any) -> Any:
        raise ImportError("no module named paint")

    assert run_plugin(make, lambda sink: None) == [("mine", "ImportError: no module named paint")]


def test_one_that_blocks_delays_nobody_and_is_said(monkeypatch):
    monkeypatch.setattr(plugins, "QUEUE_CALLS", 2)
    monkeypatch.setattr(plugins, "BLOCKED_S", 0.05)
    let_go = threading.Event()

    class Blocking(QuietSink):
        def set_metadata(self, text: str) -> None:
            let_go.wait(5)

    counts: list[int] = []

    def use(sink: PluginSink) -> None:
        deadline = time.monotonic() + 5
        while not counts and time.monotonic() < deadline:
            began = time.monotonic()
            sink.set_metadata("x")
            assert time.monotonic() - began < 0.5
            if sink.dropped_calls > 50:
                counts.append(sink.dropped_calls)
            time.sleep(0.002)
        let_go.set()

    (failure,) = run_plugin(lambda source: Blocking(), use)
    assert failure[0] == "mine"
    assert "blocked" in failure[1]


def test_a_sink_asks_the_run_on_the_loop():
    async def scene() -> list[str]:
        source = MadeRun()
        where: list[str] = []
        original = source.run
        source.run = lambda: (where.append(threading.current_thread().name), original())[1]  # type: ignore[method-assign]
        guarded = LoopSource(source, asyncio.get_running_loop())
        run = await asyncio.to_thread(guarded.run)
        assert run.id == "run-a"
        return where

    assert asyncio.run(scene()) == [threading.current_thread().name]


def test_sinks_are_found_through_their_entry_points(monkeypatch):
    recorder = Recorder()

    class Entry:
        name = "recorder"

        @staticmethod
        def load() -> Callable[[Any], Any]:
            return lambda source: recorder

    monkeypatch.setattr(
        plugins.importlib.metadata, "entry_points", lambda group: [Entry] if group == plugins.GROUP else []
    )

    async def scene() -> None:
        (sink,) = start_plugins(MadeRun(), asyncio.get_running_loop(), lambda name, reason: None)
        sink.set_metadata("hello")
        await sink.shut_down()

    asyncio.run(scene())
    assert [text for _, text in recorder.lines] == ["hello"]
