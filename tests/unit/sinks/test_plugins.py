import asyncio
import sys
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


def test_b27_one_that_raises_is_counted_said_once_and_called_again():
    calls: list[str] = []

    class Broken(QuietSink):
        def set_metadata(self, text: str) -> None:
            calls.append(text)
            raise RuntimeError(f"no paint for {text}")

        async def shut_down(self) -> None:
            calls.append("end")

    sinks: list[PluginSink] = []
    failures = run_plugin(
        lambda source: Broken(), lambda sink: (sinks.append(sink), *(sink.set_metadata(text) for text in "abc"))
    )
    assert failures == [("mine", "RuntimeError: no paint for a")]
    assert (calls, sinks[0].failed_calls) == (["a", "b", "c", "end"], 3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_b27_one_that_ends_its_own_thread_is_said():
    class Leaving(QuietSink):
        def set_metadata(self, text: str) -> None:
            sys.exit(3)

    failures = run_plugin(lambda source: Leaving(), lambda sink: sink.set_metadata("a"))
    assert failures == [("mine", "it left its thread before the end")]


def test_b27_one_that_does_not_end_is_left_behind_and_said(monkeypatch):
    monkeypatch.setattr(plugins, "END_S", 0.05)
    let_go = threading.Event()

    class Endless(QuietSink):
        async def shut_down(self) -> None:
            let_go.wait(10)

    assert run_plugin(lambda source: Endless(), lambda sink: None) == [("mine", "it did not end within 0 s")]
    let_go.set()


def test_b27_any_thread_may_call_and_no_call_is_lost_or_torn():
    recorder = Recorder()

    def use(sink: PluginSink) -> None:
        def call(thread: int) -> None:
            for number in range(50):
                sink.set_metadata(f"{thread}.{number}")

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert run_plugin(lambda source: recorder, use) == []
    texts = [text for _, text in recorder.lines]
    assert sorted(texts) == sorted(f"{thread}.{number}" for thread in range(8) for number in range(50))
    assert [text for text in texts if text.startswith("3.")] == [f"3.{number}" for number in range(50)]


def test_b27_one_that_cannot_be_made_is_said():
    def make(source: Any) -> Any:
        raise ImportError("no module named paint")

    assert run_plugin(make, lambda sink: sink.set_metadata("a")) == [("mine", "ImportError: no module named paint")]


def test_b27_one_that_blocks_delays_nobody_and_is_said(monkeypatch):
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
            assert time.monotonic() - began < 3
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
