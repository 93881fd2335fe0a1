"""What comes and goes a thousand times leaves nothing: sessions in one process, pages at one controller."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.process.conftest import Wire
from tests.process.job import clean_environment, wait_for
from tests.process.station import Station
from trackside.wire.spool import memory_path

AGAIN = """
import gc, json, sys, threading, time
import psutil
import trackside

process, looks = psutil.Process(), []
def threads():
    "How many the system counts: a thread that was joined may still be on its way out, for a moment."
    until = time.monotonic() + 5
    while (count := process.num_threads()) > 1 and time.monotonic() < until:
        time.sleep(0.01)
    return count
for number in range(int(sys.argv[1]) + 1):
    with trackside.Monitor() as mon:
        mon.log({"loss": number / 2}, step=number)
    if number in (int(sys.argv[1]) // 4, int(sys.argv[1])):
        gc.collect()
        alive = len(threading.enumerate()), len(gc.get_objects())
        looks.append((process.num_fds(), threads(), process.memory_info().rss, *alive))
print(json.dumps(looks))
"""


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.long)])
def test_monitors_begun_and_finished_in_one_process_leave_nothing(tmp_path: Path, times: int) -> None:
    (tmp_path / "again.py").write_text(textwrap.dedent(AGAIN))
    station = Station()
    try:
        done = subprocess.run(
            [sys.executable, "again.py", str(times)],
            cwd=tmp_path,
            env=clean_environment(TRACKSIDE_CONTROLLER=station.address, TMPDIR=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        (files, threads, memory, python_threads, objects), late = json.loads(done.stdout)
        assert late[0] <= files
        assert (late[1], threads) == (1, 1)
        assert (late[3], python_threads) == (1, 1)
        assert late[2] < memory + 6e6
        assert late[4] < objects + 300, "a session that is kept is 150 objects"
        assert sorted(step for name, _, step, _ in station.points() if name == "loss") == list(range(times + 1))
        assert [path for path in memory_path().glob("*.part") if str(tmp_path).encode() in path.read_bytes()] == []
        assert list(tmp_path.glob("trackside-*/*")) == []
    finally:
        station.close()


@pytest.mark.parametrize("waves", [2, pytest.param(10, marks=pytest.mark.long)])
def test_pages_that_come_and_go_leave_no_descriptor_and_no_thread(wire: Wire, waves: int) -> None:
    """A hundred in a wave: half of them listen for a moment and leave, half go in the middle of asking."""
    controller = wire.controller()
    rank = wire.rank(controller)
    address = urlsplit(wire.page(rank))
    process = psutil.Process(controller.process.pid)

    def wave() -> None:
        pages = [socket.create_connection((address.hostname, address.port), timeout=20) for _ in range(100)]
        for number, page in enumerate(pages):
            ask = f"GET /api/v1/stream?path=root HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
            page.sendall(ask if number % 2 else ask[:40])
        for page in pages[1::2]:
            assert page.recv(64).startswith(b"HTTP/1.1 200")
        for page in pages:
            page.close()

    wave()
    held = wait_for(lambda: settled(process), 30, "a quiet controller")
    memory = process.memory_info().rss
    for _ in range(waves):
        wave()
    wait_for(lambda: process.num_fds() <= held[0] and process.num_threads() <= held[1], 30, f"no more than {held}")
    assert process.memory_info().rss < memory + 30e6


def settled(process: psutil.Process) -> tuple[int, int] | None:
    """What it holds, once no connection of a page is left."""
    pages = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]
    return (process.num_fds(), process.num_threads()) if len(pages) <= 1 else None
