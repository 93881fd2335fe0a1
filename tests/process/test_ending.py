"""How a run ends: in its order, whoever asks and how often, with nothing left behind."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.process.conftest import Wire
from tests.process.job import clean_environment, wait_for
from tests.process.stream import Stream
from tests.process.wire_client import points, pump_until
from trackside.controller.beginning import begin
from trackside.controller.config import ControllerConfig
from trackside.controller.lifecycle import Controller
from trackside.wire import documents, messages
from trackside.wire.baked import Baked

pytestmark = pytest.mark.usefixtures("leak_check")


def read(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        return json.loads(answer.read())


def baked(page: bytes) -> Baked:
    text = re.search(rb'<script type="application/json" id="trackside-data">(.*?)</script>', page, re.DOTALL)[1]
    return msgspec.json.decode(text, type=Baked)


def can_be_bound(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0 and probe.bind(("127.0.0.1", port)) is None


def test_b28_the_last_records_then_complete_then_the_report_then_the_port(wire: Wire) -> None:
    """The report goes into a pipe that nobody reads at first, so that the end stands still in the middle."""
    controller = wire.controller()
    rank = wire.rank(controller)
    url = wire.page(rank)
    stream = Stream(url)
    pipe = controller.folder / "report.html.part"
    os.mkfifo(pipe)
    rank.send(points([{0: float(step)} for step in range(500)], names={0: "loss"}))
    rank.send(messages.EpochReport(epoch=0, metrics={"loss": 1.0}))
    rank.send(messages.Goodbye(time=time.time()))
    pump_until([rank], lambda: "complete" in stream.names(), what="the page is told")

    assert stream.curve() == {step: float(step) for step in range(500)}, "the last records came before"
    assert stream.names().index("epoch") < stream.names().index("complete")
    assert not (controller.folder / "report.html").exists()
    first = read(url, "api/v1/run")
    for _ in range(3):
        controller.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert controller.process.poll() is None, "the report is waited for, however often the end is asked for"
    assert not stream.ended.is_set()
    again = read(url, "api/v1/run")
    assert (again["state"], again["elapsed_seconds"]) == ("finished", first["elapsed_seconds"]), "time stands still"
    assert again["ended_at"] - again["started_at"] == pytest.approx(again["elapsed_seconds"], abs=0.5)

    report = baked(pipe.read_bytes())
    assert controller.wait() == 0
    assert stream.ended.wait(5)
    assert (report.run.state, report.series[0].total_points, report.epochs[0].epoch) == ("finished", 500, 0)
    assert stream.names().count("complete") == 1
    assert [event.kind for event in report.events].count("finish") == 1
    assert can_be_bound(int(url.split(":")[2].strip("/")))
    stream.close()


def test_b29_without_any_page_the_report_holds_graph_metadata_and_hardware(wire: Wire) -> None:
    controller = wire.controller()
    rank = wire.rank(controller)
    parameters = documents.GraphParameters(total=7, trainable=7, frozen=0)
    node = documents.GraphNode(id=0, name="", type="Net", parent=None)
    graph = documents.GraphDocument(
        label="net", hash="ab", parameters=parameters, recorded=True, nodes=[node], edges=[]
    )
    rank.send(
        messages.SetGraph(svg="<svg xmlns='http://www.w3.org/2000/svg'><circle r='3'/></svg>", label="net", hash="ab")
    )
    rank.send(messages.SetGraph(graph=msgspec.Raw(msgspec.msgpack.encode(graph)), label="net", hash="ab"))
    rank.send(messages.SetMetadata(text='{"lr": 0.1}', watched={"total": 7}))
    rank.send(messages.SetHardware(cpu="EPYC (64 threads, 512 GB)", gpu="H200 (139 GB)"))
    rank.send(messages.Goodbye(time=time.time()))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    assert controller.wait() == 0
    report = baked((controller.folder / "report.html").read_bytes())
    assert report.run.metadata == {"lr": 0.1, "parameters": {"total": 7}}
    assert (report.run.label, report.run.hash) == ("net", "ab")
    assert report.run.hardware == "node-a: EPYC (64 threads, 512 GB) | gr=0 lr=0: H200 (139 GB)"
    assert report.svg is not None
    assert "<circle" in report.svg
    assert report.graph is not None
    assert not [m for m in rank.received if isinstance(m, messages.Say) and "://" in m.line], "no page was opened"


def test_lesson_ports_and_threads_are_freed_at_shutdown(tmp_path: Path) -> None:
    """The whole controller in this process: what it started and opened is gone when `run` returns."""
    controller = Controller(config := ControllerConfig(directory=tmp_path, wants_page=True, port=0), begin(config))
    controller.bind()
    before = {thread.name for thread in threading.enumerate()}
    ports: list[int] = []

    async def scene() -> None:
        running = asyncio.create_task(controller.run(lambda: None))
        port = await asyncio.to_thread(wait_for, lambda: controller.identity.page_port, 20, "a page")
        ports.extend((port, controller.identity.link_port))
        stalled = socket.create_connection(("127.0.0.1", ports[0]))
        stalled.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
        stalled.close()

    asyncio.run(scene())
    wait_for(lambda: {thread.name for thread in threading.enumerate()} <= before, 10, "no thread more than before")
    assert [can_be_bound(port) for port in ports] == [True, True]


def test_lesson_one_client_that_reads_nothing_freezes_nobody(wire: Wire) -> None:
    """Twenty that asked for everything large there is, and read none of it."""
    controller = wire.controller()
    rank = wire.rank(controller)
    url = wire.page(rank)
    rank.send(points([{0: float(step)} for step in range(20_000)], names={0: "loss"}))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    host, port = url.removeprefix("http://").strip("/").split(":")
    stalled = []
    for path in ("/api/v1/stream", "/report.html", "/", "/api/v1/series?metric=loss&points=20000") * 5:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect((host, int(port)))
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        stalled.append(client)
    quick = Stream(url)
    for step in range(20_000, 20_020):
        rank.send(points([{0: 7.0}], step=step))
        pump_until([rank], lambda step=step: step in quick.curve(), seconds=5, what=f"step {step} on the stream")
        assert read(url, "healthz")["status"] == "ok"
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    for client in stalled:
        client.close()
    quick.close()


@pytest.mark.long
def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path) -> None:
    """A clean end takes all away; what a killed rank could not, the next run does."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    left = lambda: [path for path in temporary.rglob("*") if path.is_file()]  # noqa: E731
    shared = set(Path("/dev/shm").glob("*trackside*"))
    for number, end in enumerate(("mon.finish()", "os._exit(0)", "mon.finish()")):
        code = "import os, trackside\nmon = trackside.Monitor()\nmon.serve(0)\nmon.log({'loss': 1.0})\n"
        code += f"assert mon._runtime._link.connected.wait(60)\n{end}"
        env = clean_environment(TRACKSIDE_DIR=str(tmp_path / "runs"), TMPDIR=str(temporary))
        subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, timeout=60)
        wait_for(lambda runs=number + 1: len(list(tmp_path.glob("runs/*/report.html"))) == runs, 60, "a report")
        wait_for(lambda: not list(tmp_path.glob("runs/*/journal")), 60, "a clean end")
        if end == "mon.finish()":
            wait_for(lambda: not left(), 20, "an empty temporary folder")
    assert set(Path("/dev/shm").glob("*trackside*")) == shared
