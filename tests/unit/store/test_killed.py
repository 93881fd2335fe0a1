"""Real processes, really killed: `kill -9` in the middle of commits and rotations; a disk that is really full."""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.unit.store.station import Station, new_folder, wait_until
from trackside.store import RunFolder, read_rows

ROOT = Path(__file__).resolve().parents[3]


def killed_after(folder: RunFolder, seconds: float, first: int) -> int:
    """Run the writer for a while and kill it; return the highest acknowledged sequence it told us."""
    command = [sys.executable, "-m", "tests.unit.store.killed", str(folder.path), str(first)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
    finally:
        process.kill()
        rest = process.stdout.read().splitlines()
        process.wait(10)
        process.stdout.close()
    return max((int(line) for line in rest if line.isdigit()), default=0)


def test_kill_9_loses_nothing_acknowledged_and_doubles_nothing(folder: RunFolder) -> None:
    acknowledged = 0
    for life in range(2):
        acknowledged = max(acknowledged, killed_after(folder, random.uniform(0.4, 0.9), life))
        steps = Counter(row[5] for row in read_rows(folder.path) if row[0] == "loss")
        assert set(steps.values()) == {1}
        assert sorted(steps) == list(range(len(steps)))
        assert len(steps) >= acknowledged > 0
    station = Station.resume(folder)
    assert station.close()
    frame = pd.read_parquet(folder.points)
    assert sorted(frame[frame.series == "loss"].step) == list(range(len(frame) // 2))
    assert len(frame) // 2 >= acknowledged
    assert not folder.journal.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mount.returncode != 0:
        pytest.skip("no right to mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=False)


def test_a_disk_that_is_really_full(small_disk: Path, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.writer.STALL_SECONDS", 0.2)
    folder = new_folder(small_disk)
    ballast = small_disk / "ballast"
    station = Station(folder)
    station.greet(0)
    station.log(0, 0, [{"loss": 0.0}])
    station.wait_durable()
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(os.urandom(4096))
    for step in range(1, 400):
        station.log(0, step, [{"loss": float(step)}])
    wait_until(lambda: bool(station.said), "the word that it stalls")
    assert station.said[0].reason == "No space left on device"
    ballast.unlink()
    station.wait_durable()
    assert station.close()
    assert sorted(pd.read_parquet(folder.points)["value"]) == [float(step) for step in range(400)]
