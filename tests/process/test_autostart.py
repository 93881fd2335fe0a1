"""A script that never mentions Trackside, under `trackside run`: watched, and as it is under torchrun."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import SCRIPTS, Job, clean_environment
from tests.process.station import Station
from trackside.wire import messages

AUTOSTART = Path(__file__).parents[2] / "src/trackside/monitor/autostart"
PHASES = {"data", "forward", "backward", "optimizer", "collective", "rest"}


def user_site(folder: Path) -> Path:
    """A folder with a `sitecustomize` of the user's own."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("MARK = 'the users own'\n")
    return site


def said(text: str) -> list[str]:
    """What the script printed, without the launcher's prefixes."""
    return [re.sub(r"^\[[^]]*:r\d+\] ", "", line) for line in text.splitlines()]


def entries(job: Job) -> list[dict[str, Any]]:
    return json.loads((job.folder() / "run.json").read_text())["rank_entries"]


def test_ranks_are_watched_and_the_script_is_what_it_was(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, (str(user_site(tmp_path)), os.environ.get("PYTHONPATH"))))
    options = ("--raise", "--workers", "-x", "y")
    job = Job.run("plain.py", tmp_path, *options, PYTHONPATH=path)
    code = job.wait(180)
    plain = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(SCRIPTS / "plain.py"), *options],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert said(job.stdout) == plain.stdout.splitlines()
    assert "site the users own" in plain.stdout
    assert (code, plain.returncode) == (1, 1)
    assert 'plain.py", line' in job.stderr
    assert "mat1 and mat2 shapes cannot be multiplied" in job.stderr
    assert "trackside/monitor" not in job.stderr
    for rank in entries(job):
        assert (rank["monitored"], rank["step"], rank["samples"]) == (True, 47, 192)
        assert set(rank["phases"]) == PHASES
        assert rank["own_step_seconds"] <= rank["step_seconds"]


@pytest.mark.long
@pytest.mark.parametrize("asked", ["option", "environment"])
def test_it_can_be_left_alone(tmp_path: Path, asked: str) -> None:
    options = ("--no-instrument",) if asked == "option" else ()
    more = {"TRACKSIDE_INSTRUMENT": "0"} if asked == "environment" else {}
    job = Job.run("plain.py", tmp_path, options=options, **more)
    assert job.wait(180) == 0
    assert [(rank["monitored"], rank["step"]) for rank in entries(job)] == [(False, None)] * 2


def rank(code: str, folder: Path, station: Station, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the only rank of a launched job."""
    script = folder / "train.py"
    script.write_text(code)
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=clean_environment(
            PYTHONPATH=os.pathsep.join(filter(None, (str(AUTOSTART), os.environ.get("PYTHONPATH")))),
            TRACKSIDE_CONTROLLER=station.address,
            RANK="0",
            LOCAL_RANK="0",
            WORLD_SIZE="1",
            **env,
        ),
        capture_output=True,
        text=True,
        timeout=120,
    )


JOINS = """
import sys
import trackside
import torch
mon = trackside.Monitor(epochs=3, resources=False)
mon.log({"loss": 1.0})
mon.finish()
print([finder for finder in sys.meta_path if "trackside" in type(finder).__module__])
"""
SPAWNS = """
import os, subprocess, sys
import torch, torch.multiprocessing as mp
def child(_):
    model = torch.nn.Linear(1, 1)
    model(torch.ones(1)).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
if __name__ == "__main__":
    mp.spawn(child, nprocs=1)
    subprocess.run([sys.executable, "-c", "import torch, sys; print('trackside.monitor.runtime' in sys.modules)"], check=True)
"""


@pytest.mark.long
def test_a_monitor_of_the_scripts_own_joins_and_ends_the_session(tmp_path: Path) -> None:
    station = Station()
    done = rank(JOINS, tmp_path, station)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert len({hello.session for hello in station.hellos()}) == 1
    assert [name for name, *_ in station.points()] == ["loss"]
    assert [plan.epochs for plan in station.of(messages.SetPlan)] == [3]
    assert len(station.of(messages.Goodbye)) == 1
    station.close()


@pytest.mark.long
def test_children_are_strangers(tmp_path: Path) -> None:
    station = Station()
    done = rank(SPAWNS, tmp_path, station)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert len({hello.session for hello in station.hellos()}) <= 1
    assert station.of(messages.StepTimes) == []
    station.close()


def test_without_torch_there_is_no_session(tmp_path: Path) -> None:
    station = Station()
    done = rank("import sys; print('trackside.monitor.runtime' in sys.modules)", tmp_path, station)
    assert (done.returncode, done.stdout, station.hellos()) == (0, "False\n", [])
    station.close()


@pytest.mark.long
@pytest.mark.parametrize(("raised", "returned"), [("ImportError('x', name='other')", 0), ("ValueError(1)", 0)])
def test_what_the_users_sitecustomize_raises_is_said_as_ever(tmp_path: Path, raised: str, returned: int) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"raise {raised}\n")
    results = [
        subprocess.run(
            [sys.executable, "-c", "print('ran')"],
            env=clean_environment(PYTHONPATH=path),
            capture_output=True,
            text=True,
            timeout=60,
        )
        for path in (str(site), f"{AUTOSTART}:{site}")
    ]
    assert results[0].stdout == results[1].stdout == "ran\n"
    assert results[0].stderr == results[1].stderr != ""
    assert [result.returncode for result in results] == [returned] * 2
