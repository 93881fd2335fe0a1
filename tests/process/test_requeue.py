"""A job that is killed and started again, as batch systems do it: one run, whatever was left of the last start."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
SCRIPT = str(SCRIPTS / "requeued.py")
ALONE = [sys.executable, SCRIPT]
LAUNCHED = [*TRACKSIDE, "run", "--port", "0", "--nproc-per-node", "2", SCRIPT]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", SCRIPT]
Start = Callable[..., Job]


@pytest.fixture
def start(scratch: Path) -> Iterator[Start]:
    """Starts job 4711 for the n-th time."""
    jobs: list[Job] = []

    def begin(command: list[str], restarts: int = 0, *arguments: str, folder: Path = scratch, **env: str) -> Job:
        slurm = {"SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "big", "SLURM_RESTART_COUNT": str(restarts)}
        jobs.append(Job([*command, str(folder), *arguments], scratch, **{**slurm, **env}))
        return jobs[-1]

    yield begin
    kill_all(scratch)
    for job in jobs:
        job.close()


def document(scratch: Path) -> dict[str, Any]:
    """Of the only run."""
    paths = list((scratch / "runs").glob("*/run.json"))
    assert len(paths) < 2, "one run"
    return json.loads(paths[0].read_text())


def wait_for_steps(scratch: Path, generation: int, ranks: int, steps: int = 60) -> dict[str, Any]:
    """The run document, once every rank of a generation has trained for a while."""

    def look() -> dict[str, Any] | None:
        found = document(scratch)
        entries = found["rank_entries"]
        is_whole = found["generation"] == generation and len(entries) == ranks
        return found if is_whole and all((entry["step"] or 0) > steps for entry in entries) else None

    return wait_for(look, 60, f"{ranks} ranks of generation {generation} at work")


def kill_all(scratch: Path, number: signal.Signals = signal.SIGKILL) -> None:
    """What a batch system or a dying node does to all that a job started, the controller included."""
    ours = str(scratch)
    doomed = [p for p in psutil.process_iter(["pid"]) if p.pid != os.getpid() and _is_ours(p, ours)]
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):  # the end of one may have ended it
            process.send_signal(number)
    psutil.wait_procs(doomed, timeout=30)


def _is_ours(process: psutil.Process, folder: str) -> bool:
    try:
        return any(folder in word for word in process.cmdline())
    except psutil.Error:
        return False


def events(scratch: Path, kind: str) -> list[dict[str, Any]]:
    (path,) = (scratch / "runs").glob("*/events.jsonl")
    told = {event["id"]: event for event in map(json.loads, path.read_text().splitlines())}
    return [event for event in told.values() if event["kind"] == kind]


def assert_whole(scratch: Path, generations: int, ranks: int) -> None:
    """Every step of every rank is there, and what was trained twice is there twice."""
    import pandas as pd

    (folder,) = (scratch / "runs").glob("*/points")
    points = pd.read_parquet(folder)
    assert set(points["generation"]) == set(range(generations))
    assert not points.duplicated(["series", "rank", "generation", "step"]).any()
    for rank, own in points.groupby("rank"):
        assert rank < ranks
        assert sorted(own["step"].unique()) == list(range(own["step"].max() + 1)), f"rank {rank} has a gap"
        twice = own.groupby("step")["generation"].nunique()
        assert (twice > 1).any(), "what is trained again from an older checkpoint is kept beside what was"


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        pytest.param(ALONE, 1, id="python"),
        pytest.param(LAUNCHED, 2, id="trackside run", marks=pytest.mark.long),
        pytest.param(TORCHRUN, 2, id="torchrun", marks=pytest.mark.long),
    ],
)
def test_d41_d42_d43_after_a_node_failure_a_requeued_job_goes_on_in_its_run(
    scratch: Path, start: Start, command: list[str], ranks: int
) -> None:
    first = start(command)
    before = wait_for_steps(scratch, 0, ranks)
    kill_all(scratch)  # nobody could save anything
    first.wait(30)
    second = start(command, 1, "--resume")
    during = wait_for_steps(scratch, 1, ranks)
    assert (during["id"], during["state"], during["ranks"]["alive"]) == (before["id"], "running", ranks)
    assert [warning["text"] for warning in during["warnings"]] == []
    (scratch / "stop").touch()
    assert second.wait() == 0
    after = wait_for(lambda: (now := document(scratch))["state"] == "finished" and now, 30, "the end")

    assert (after["id"], after["generation"]) == (before["id"], 1)
    assert after["started_at"] == pytest.approx(before["started_at"], abs=1)
    assert after["environment"]["session"] == 2
    (again,) = events(scratch, "restart")
    assert "session 2" in again["text"]
    assert "Slurm job 4711, restart 1" in again["text"]
    assert "broke off" in again["text"]
    assert f"it goes on at step {again['step']}, and steps {again['step']} to " in again["text"]
    (resumed,) = after["environment"]["resumed"]
    assert (resumed["step"], resumed["generation"]) == (again["step"], 1)
    assert "session 2 of" in second.stderr
    wait_for((scratch / "runs").glob("*/report.html").__next__, 30, "the report")
    wait_for(lambda: not list((scratch / "runs").glob("*/journal")), 30, "a clean end")
    assert_whole(scratch, 2, ranks)


@pytest.mark.long
def test_d41_a_preempted_job_keeps_its_former_end_as_an_event(scratch: Path, start: Start) -> None:
    start(LAUNCHED)
    wait_for_steps(scratch, 0, 2)
    kill_all(scratch, signal.SIGTERM)
    assert document(scratch)["state"] == "terminated"
    start(LAUNCHED, 1)
    wait_for_steps(scratch, 1, 2)
    kill_all(scratch, signal.SIGTERM)
    third = start(LAUNCHED, 3)  # a start that came to nothing counts as well
    wait_for_steps(scratch, 2, 2)
    (scratch / "stop").touch()
    assert third.wait() == 0
    after = document(scratch)
    assert (after["state"], after["state_detail"], after["environment"]["session"]) == ("finished", None, 3)
    ends = [event["text"].partition(":")[0] for event in events(scratch, "finish")]
    assert ends == ["terminated", "terminated", "finished"]
    assert ["was terminated: " in event["text"] for event in events(scratch, "restart")] == [True, True]
    report = next((scratch / "runs").glob("*/report.html")).read_text()
    assert "session 3 of this run begins" in report
    assert_whole(scratch, 3, 2)


@pytest.mark.long
@pytest.mark.leaves_files
def test_d41_d43_two_things_that_one_job_starts_are_two_runs_and_each_is_found_again(
    scratch: Path, start: Start
) -> None:
    folders = [scratch / "a", scratch / "b"]
    for folder in folders:
        folder.mkdir()
        start(ALONE, 0, folder=folder)
    before = _runs_by_command(scratch, sessions=1)
    kill_all(scratch)
    for folder in reversed(folders):  # in another order than the first time
        start(ALONE, 1, folder=folder)
    after = _runs_by_command(scratch, sessions=2)
    assert after == before
    for folder in folders:
        (folder / "stop").touch()


def _runs_by_command(scratch: Path, sessions: int) -> dict[str, str]:
    """The id of each run by what it trains in, once both are in this session."""

    def look() -> dict[str, str] | None:
        found = [json.loads(path.read_text()) for path in (scratch / "runs").glob("*/run.json")]
        now = [run for run in found if run["generation"] == sessions - 1 and (run["step"] or 0) > 60]
        return {run["environment"]["command"][2]: run["id"] for run in now} if len(now) == len(found) == 2 else None

    return wait_for(look, 60, f"two runs in session {sessions}")


@pytest.mark.long
def test_d43_one_process_a_rank_under_a_controller_of_the_batch_script(scratch: Path, start: Start) -> None:
    """The second way of the page about Slurm: a controller in the batch script, then `srun python train.py`."""
    for restarts in (0, 1):
        controller = start([*TRACKSIDE, "controller", "--port", "0", "--dir"], restarts, folder=scratch / "runs")
        address = wait_for(lambda c=controller: json.loads(c.stdout)["address"], 30, "the ready line")
        for rank in (0, 1):
            task = {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(rank), "SLURM_STEP_ID": "0"}
            start(ALONE, restarts, TRACKSIDE_CONTROLLER=address, **task)
        wait_for_steps(scratch, restarts, 2)
        if restarts == 0:
            kill_all(scratch)
    (scratch / "stop").touch()
    assert controller.wait() == 0
    assert document(scratch)["generation"] == 1
    assert_whole(scratch, 2, 2)


@pytest.mark.long
@pytest.mark.parametrize("by", ["option", "environment"])
def test_d43_a_job_without_a_batch_system_goes_on_in_the_run_that_is_named(
    scratch: Path, start: Start, by: str
) -> None:
    bare = {"SLURM_JOB_ID": ""}
    start(LAUNCHED, 0, **bare)
    before = wait_for_steps(scratch, 0, 2)
    kill_all(scratch)
    folder = next((scratch / "runs").glob("*/run.json")).parent
    if by == "option":
        second = start([*LAUNCHED[:-1], "--resume", folder.name, LAUNCHED[-1]], 0, **bare)
    else:
        second = start(ALONE, 0, TRACKSIDE_RESUME=before["id"], **bare)
    after = wait_for_steps(scratch, 1, 2 if by == "option" else 1)
    assert after["id"] == before["id"]
    (scratch / "stop").touch()
    assert second.wait() == 0


@pytest.mark.long
@pytest.mark.leaves_files
def test_a_run_whose_controller_is_still_there_is_left_alone(scratch: Path, start: Start) -> None:
    """A host that was given up and trains on: two controllers in one folder would ruin it."""
    start(ALONE)
    before = wait_for_steps(scratch, 0, 1)
    second = start(ALONE, 1)
    runs = wait_for(
        lambda: len(found := list((scratch / "runs").glob("*/run.json"))) == 2 and found, 60, "a second run"
    )
    documents = [json.loads(path.read_text()) for path in runs]
    other = next(run for run in documents if run["id"] != before["id"])
    said = wait_for(lambda: "still there" in second.stderr and second.stderr, 30, "a line that says so")
    assert "a run of its own" in said
    events = next(path for path in (scratch / "runs").glob("*/events.jsonl") if other["id"] in _beside(path))
    assert "still there" in events.read_text()


def _beside(path: Path) -> str:
    return (path.parent / "run.json").read_text()


@pytest.mark.leaves_files
def test_a_requeued_job_whose_run_is_not_there_says_so(scratch: Path, start: Start) -> None:
    job = start(ALONE, 2)
    wait_for_steps(scratch, 0, 1)
    wait_for(lambda: "no run of it that could go on" in job.stderr, 30, "a line that says so")


def test_a_wrong_name_is_refused_before_anything_is_started(scratch: Path, start: Start) -> None:
    job = start([*LAUNCHED[:-1], "--resume", "nothing", LAUNCHED[-1]])
    assert job.wait() == 2
    assert "nothing is no run folder" in job.stderr
    assert not list((scratch / "runs").glob("*/run.json"))
