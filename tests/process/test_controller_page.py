"""The page's server in a real controller, read by real clients."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.process.stream import Stream
from tests.process.wire_client import ControllerUnderTest, WireRank, points, pump_until, said
from trackside.wire import messages

pytestmark = pytest.mark.usefixtures("leak_check")


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerUnderTest]:
    started = ControllerUnderTest(tmp_path)
    yield started
    started.close()


@pytest.fixture
def rank(controller: ControllerUnderTest) -> Iterator[WireRank]:
    context = zmq.Context()
    made = WireRank(context, controller.address, 0)
    made.hello()
    pump_until([made], lambda: made.welcome)
    yield made
    made.close()
    context.term()


@pytest.fixture
def url(rank: WireRank) -> str:
    rank.send(messages.PortWish(port=0))
    line = pump_until([rank], lambda: [m.line for m in said(rank, messages.Say) if "://" in m.line])[-1]
    return line.split()[1] + "/"


@pytest.fixture
def open_stream(url: str) -> Iterator[Callable[..., Stream]]:
    opened: list[Stream] = []

    def make(**options: Any) -> Stream:
        opened.append(Stream(url, **options))
        return opened[-1]

    yield make
    for stream in opened:
        stream.close()


def log(rank: WireRank, first: int, last: int) -> None:
    """Steps `first` to `last`, the step being its value."""
    names = {0: "loss"} if first == 0 else None
    rank.send(points([{0: float(step)} for step in range(first, last + 1)], step=first, names=names))


def finish(rank: WireRank) -> None:
    rank.send(messages.Goodbye(time=time.time()))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)


def expected(last: int) -> dict[int, float]:
    return {step: float(step) for step in range(last + 1)}


def test_a_page_is_right_opened_early_late_and_three_times(controller, rank, open_stream):
    early = open_stream()
    log(rank, 0, 9)
    pump_until([rank], lambda: early.curve() == expected(9))
    late = [open_stream(), open_stream(), open_stream(path="root/node-a/rank0")]
    log(rank, 10, 14)
    for stream in (early, *late):
        pump_until([rank], lambda stream=stream: stream.curve() == expected(14))
    finish(rank)
    for stream in (early, *late):
        pump_until([rank], lambda stream=stream: stream.names()[-1:] == ["complete"])
        assert stream.events[-1][1]["state"] == "finished"
    assert controller.wait() == 0
    assert all(stream.ended.wait(5) for stream in (early, *late))


def test_a_page_that_lost_its_connection_gets_what_it_missed(rank, open_stream):
    first = open_stream()
    log(rank, 0, 4)
    pump_until([rank], lambda: first.curve() == expected(4) and first.last_id)
    first.close()
    log(rank, 5, 9)
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    again = open_stream(last=first.last_id)
    pump_until([rank], lambda: {**first.curve(), **again.curve()} == expected(9))
    assert again.events[0][1]["resumed"] is True
    assert "ranks" not in again.names() or again.names().index("hello") == 0


def test_lesson_no_queue_grows_behind_a_stalled_tab(controller, rank, url, open_stream):
    import psutil

    host, port = url.removeprefix("http://").strip("/").split(":")
    stalled = socket.create_connection((host, int(port)))
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    quick = open_stream()
    process = psutil.Process(controller.process.pid)
    log(rank, 0, 0)
    pump_until([rank], quick.curve)
    before = process.memory_info().rss
    for first in range(1, 20_000, 400):
        log(rank, first, first + 399)
        rank.pump()
        time.sleep(0.01)
    pump_until([rank], lambda: max(quick.curve(), default=0) >= 19_999, what="the quick page has the last step")
    assert process.memory_info().rss - before < 60e6
    stalled.close()


def test_d73_proxies_must_not_hold_the_stream_back(rank, open_stream):
    headers = open_stream().headers
    assert headers["X-Accel-Buffering"] == "no"
    assert "no-transform" in headers["Cache-Control"]
    assert headers["Content-Type"].startswith("text/event-stream")


def test_a_point_is_on_the_stream_within_a_moment(rank, open_stream):
    stream = open_stream()
    pump_until([rank], lambda: "points" in stream.names())
    waits = []
    for step in range(10):
        time.sleep(0.15)
        began = time.monotonic()
        rank.send(points([{0: float(step)}], step=step, names={0: "loss"} if step == 0 else None))
        pump_until([rank], lambda step=step: step in stream.curve(), what=f"step {step} on the stream")
        waits.append(time.monotonic() - began)
    assert min(waits) < 0.5, "how long it takes is for the benchmarks; here, that it waits for no tick of a second"


def test_the_report_can_be_had_while_the_run_goes_on(rank, url):
    log(rank, 0, 9)
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    with urllib.request.urlopen(f"{url}report.html", timeout=10) as answer:
        assert b'id="trackside-data"' in answer.read()


def test_hold_keeps_the_page_until_a_signal(tmp_path):
    controller = ControllerUnderTest(tmp_path, "--hold", "--port", "0")
    context = zmq.Context()
    rank = WireRank(context, controller.address, 0)
    try:
        rank.hello()
        line = pump_until([rank], lambda: [m.line for m in said(rank, messages.Say) if "://" in m.line])[-1]
        url = line.split()[1] + "/"
        log(rank, 0, 3)
        finish(rank)
        report = controller.folder / "report.html"
        pump_until([rank], lambda: report.exists() and not (controller.folder / "journal").exists())
        with urllib.request.urlopen(f"{url}api/v1/series?metric=loss", timeout=5) as answer:
            assert json.loads(answer.read())["x"] == [0, 1, 2, 3]
        assert controller.process.poll() is None
        os.kill(controller.process.pid, signal.SIGINT)
        assert controller.wait() == 0
    finally:
        rank.close()
        context.term()
        controller.close()


def view(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "trackside", "view", str(folder), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True)
    reader.start()
    line = lines.get(timeout=20)
    reader.join()
    return process, json.loads(line)["url"]


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    process.stdout.close()


def test_a_finished_run_is_viewed_with_the_same_page(controller, rank):
    log(rank, 0, 9)
    finish(rank)
    assert controller.wait() == 0
    process, url = view(controller.folder)
    try:
        stream = Stream(url)
        pump_until([], lambda: "complete" in stream.names())
        with urllib.request.urlopen(f"{url}api/v1/series?metric=loss", timeout=5) as answer:
            assert json.loads(answer.read())["mean"] == list(map(float, range(10)))
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.status == 200
        stream.close()
    finally:
        end(process)


def test_a_running_run_is_viewed_and_its_end_is_seen(controller, rank):
    log(rank, 0, 9)
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    process, url = view(controller.folder)
    try:
        stream = Stream(url)
        with urllib.request.urlopen(f"{url}api/v1/series?metric=loss", timeout=5) as answer:
            assert json.loads(answer.read())["x"] == list(range(10))
        finish(rank)
        assert controller.wait() == 0
        pump_until([], lambda: "complete" in stream.names(), seconds=10)
        assert stream.events[-1][1]["state"] == "finished"
        stream.close()
    finally:
        end(process)
