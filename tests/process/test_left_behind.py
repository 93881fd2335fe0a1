"""A run of which everything is killed leaves its last calls in memory; the next run on this machine brings them to a disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.process.job import TRACKSIDE, Job, clean_environment, wait_for
from trackside.wire.estate import session_of
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
    time.sleep(0.01)
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
    listed = subprocess.run([*TRACKSIDE, "recover"], capture_output=True, text=True, timeout=60, env=environ)
    said = listed.stdout.splitlines()
    (at,) = [number for number, line in enumerate(said) if f"one killed process of run {run} left" in line]
    assert said[at + 1].strip() == f"trackside recover {folder}"
    doctor = subprocess.run([*TRACKSIDE, "doctor"], capture_output=True, text=True, timeout=60, env=environ)
    assert "  left  " in doctor.stdout
    assert len(doctor.stdout.splitlines()) <= 24, "one screen"
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


EARLY = """
import time
import trackside

mon = trackside.Monitor()
for step in range(40):
    mon.log({"loss": float(step)})
print("logged", flush=True)
time.sleep(60)
"""


def test_a_script_that_is_killed_with_the_controller_it_was_starting_is_made_a_run_of(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(EARLY)
    killed = Job([sys.executable, "early.py"], tmp_path)
    try:
        script = psutil.Process(killed.process.pid)
        wait_for(lambda: "logged" in killed.stdout, 60, "its values")
        for process in [*wait_for(script.children, 30, "a controller that starts"), script]:
            process.kill()
        killed.wait(30)
    finally:
        killed.close()
    assert not (tmp_path / "runs").exists(), "the controller was faster than the test"
    mine = [path for path in memory_path().glob("*.part") if str(tmp_path).encode() in path.read_bytes()]
    (session,) = {session_of(path) for path in mine}
    recover = [*TRACKSIDE, "recover"]
    environ = clean_environment()
    listed = subprocess.run(recover, capture_output=True, text=True, timeout=60, env=environ, cwd=tmp_path)
    assert f"trackside recover {session}\n" in listed.stdout
    done = subprocess.run(
        [*recover, session, "--json"], capture_output=True, text=True, timeout=60, env=environ, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    folder = Path(said["directory"])
    assert (folder.parent, folder.name.endswith("-early"), said["points"]) == (tmp_path / "runs", True, 40)
    import pandas as pd

    assert sorted(pd.read_parquet(folder / "points").value) == [float(step) for step in range(40)]
    assert not any(path.exists() for path in mine)
