"""A run of which everything is killed leaves its last calls in memory; the next run on this machine brings them to a disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.process.job import TRACKSIDE, Job, clean_environment, wait_for
from trackside.wire.spool import memory_path
from trackside.wire.sweep import CROWD_SETTLED_S, SETTLED_S

pytestmark = pytest.mark.usefixtures("leak_check")

TRAIN = """
import itertools, sys, time
import trackside

mon = trackside.Monitor()
for step in itertools.count():
    mon.log({"loss": step / 2}, step=step)
    print(step, flush=True)
    time.sleep(0.002)
"""
NEXT = """
import pathlib, time
import trackside

with trackside.Monitor() as mon:
    while not pathlib.Path("stop").exists():
        mon.log({"loss": 1.0})
        print("goes on", flush=True)
        time.sleep(0.1)
"""


def of_run(run: str) -> list[Path]:
    """Files in this machine's memory that belong to it."""
    spools = [path for path in memory_path().glob("*.part") if run.encode() in path.read_bytes()]
    stems = {path.name.rpartition("-")[0] for path in spools}
    return [*spools, *(path for path in memory_path().glob("*.ring") if path.stem in stems)]


def age(files: list[Path], seconds: float) -> None:
    """Have them last been written so long ago."""
    for path in files:
        os.utime(path, (time.time() - seconds,) * 2)


def is_told(run: str, folder: Path) -> bool:
    """Whether the session knows its run folder, and has its ring."""
    left = of_run(run)
    is_named = any(str(folder).encode() in path.read_bytes() for path in left if path.suffix == ".part")
    return is_named and any(path.suffix == ".ring" for path in left)


def test_what_a_killed_run_left_in_memory_is_swept_by_the_next_and_recovered_whole(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    killed = Job([sys.executable, "train.py"], tmp_path)
    try:
        folder = killed.folder()
        run = json.loads((folder / "run.json").read_text())["id"]
        wait_for(lambda: len(killed.out) > 300 and is_told(run, folder), 30, "files in memory that name the run folder")
        for pid in (killed.controller_pid(), killed.process.pid):
            killed.kill(pid)
        killed.wait(30)
        steps = int(killed.out[-1] if killed.out[-1].endswith("\n") else killed.out[-2])
    finally:
        killed.close()
    left = of_run(run)
    assert {path.suffix for path in left} == {".part", ".ring"}
    age(left, CROWD_SETTLED_S + 30)  # told, and not swept yet by a controller of another test
    environ = clean_environment()
    doctor = subprocess.run([*TRACKSIDE, "doctor"], capture_output=True, text=True, timeout=60, env=environ)
    (said,) = [line for line in doctor.stdout.splitlines() if run in line]
    assert f"one killed process of run {run} left" in said
    assert f"`trackside recover {folder}`" in doctor.stdout, doctor.stdout
    age(left, SETTLED_S + 60)
    following = Job([sys.executable, "-c", NEXT], tmp_path)
    try:
        wait_for(lambda: not of_run(run), 60, "the sweep")
        by_another = "by another test's controller"
        line = wait_for(
            lambda: (
                next((line for line in following.stderr.splitlines() if run in line), None)
                or (by_another if len(following.out) > 20 else None)
            ),
            60,
            "what was moved",
        )
        (tmp_path / "stop").touch()
        assert following.wait(60) == 0
    finally:
        following.close()
    assert of_run(run) == []
    if line != by_another:
        assert line.strip().startswith("left ")
        assert f"`trackside recover {folder}`" in line
    done = subprocess.run(
        [*TRACKSIDE, "recover", str(folder), "--json"], capture_output=True, text=True, timeout=60, env=environ
    )
    assert done.returncode == 0, done.stderr
    import pandas as pd

    points = pd.read_parquet(folder / "points")
    found = sorted(points[points["series"] == "loss"]["step"])
    assert found == list(range(len(found)))
    assert len(found) > steps
    assert not (folder / "spool").exists()
