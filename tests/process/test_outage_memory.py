"""An hour without a controller, compressed: what a rank holds stays within bounds, and it ends as quickly as ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faults.link import BadLink
from tests.process.job import clean_environment, wait_for
from tests.process.wire_client import ControllerUnderTest
from trackside.wire.address import format_address

pytestmark = [pytest.mark.long, pytest.mark.leaves_files]

FLOOD = """
import json, sys, time
import psutil
import trackside

mon, process = trackside.Monitor(), psutil.Process()
row = {f"m{n}": n / 7 for n in range(100)}
for step in range(200):
    mon.log(row)
    time.sleep(0.005)
print("connected", flush=True)
sys.stdin.readline()
before, most = process.memory_info().rss, 0
for step in range(int(sys.argv[1])):
    mon.log(row)
    if not step % 1000:
        most = max(most, process.memory_info().rss)
        time.sleep(0.02)
began = time.perf_counter()
mon.finish()
took = time.perf_counter() - began
print(json.dumps({"grown_mb": (max(most, process.memory_info().rss) - before) / 1e6, "finish_s": took}), flush=True)
"""
HOUR_OF_VALUES = 36_000_000
"""Of a rank that logs 10,000 values a second."""
MOST_MB = 200
MOST_DISK_MB = 2148
FINISH_S = 5.0


@pytest.mark.parametrize("state", ["stopped", "killed", "swallowed by the network"])
def test_an_hour_without_a_controller_is_kept_within_bounds(state: str, tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOOD)
    controller = ControllerUnderTest(tmp_path)
    link = BadLink(controller.address.port)
    address = msgspec.structs.replace(controller.address, hosts=["127.0.0.1"], port=link.port)
    rank = subprocess.Popen(
        [sys.executable, "flood.py", str(HOUR_OF_VALUES // 100)],
        cwd=tmp_path,
        env=clean_environment(TRACKSIDE_CONTROLLER=format_address(address), TMPDIR=str(tmp_path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert rank.stdin is not None
        assert rank.stdout is not None
        assert rank.stdout.readline() == "connected\n"
        if state == "stopped":
            os.kill(controller.process.pid, signal.SIGSTOP)
        elif state == "killed":
            controller.kill()
        else:
            link.blackhole()
        rank.stdin.write("go\n")
        rank.stdin.flush()
        said = json.loads(wait_for(rank.stdout.readline, 200, "the rank's figures"))
        assert rank.wait(60) == 0
        disk_mb = sum(path.stat().st_size for path in tmp_path.rglob("*.spool")) / 1e6
        print(state, said, disk_mb, file=sys.stderr)
        assert said["grown_mb"] < MOST_MB
        assert said["finish_s"] < FINISH_S + 0.5
        assert 0 < disk_mb < MOST_DISK_MB
    finally:
        rank.kill()
        rank.wait(10)
        for stream in (rank.stdin, rank.stdout):
            if stream is not None:
                stream.close()
        if state == "stopped":
            os.kill(controller.process.pid, signal.SIGCONT)
        link.close()
        controller.kill()
        controller.close()
