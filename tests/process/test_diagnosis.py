"""Real jobs with one fault each: the right rank and phase are named, and nothing else is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import TRACKSIDE, Job, clean_environment

pytestmark = pytest.mark.usefixtures("leak_check")
SINCE = 60


def ran(folder: Path, fault: str, *arguments: str, nproc: int = 3, seconds: float = 200) -> Job:
    job = Job.run("blamed.py", folder, "--fault", fault, "--since", str(SINCE), *arguments, nproc=nproc)
    try:
        assert job.wait(seconds) == 0, job.stderr
    finally:
        job.close()
    return job


def verdicts(job: Job) -> list[dict[str, Any]]:
    """What is said of the job; that its machine has no core free may be said besides, and be true."""
    found: list[dict[str, Any]] = job.document()["diagnosis"]["verdicts"]
    return [one for one in found if one["kind"] != "crowded host"]


def blamed(job: Job) -> set[tuple[str, int | None, str | None]]:
    return {(one["kind"], one["rank"], one["phase"]) for one in verdicts(job)}


def test_a_slow_loader_is_named_in_time_and_said_everywhere(scratch: Path) -> None:
    job = ran(scratch, "data", "--steps", "140")
    assert blamed(job) == {("data starvation", 1, "data")}
    (verdict,) = verdicts(job)
    assert verdict["active"]
    assert SINCE - 1 <= verdict["since_step"] <= SINCE + 10
    assert verdict["own_seconds"] == pytest.approx(0.08, abs=0.03)
    (event,) = [event for event in job.events() if event["kind"] == "data starvation"]
    assert event["path"].endswith("/rank1")
    steps = 20 * 0.2
    began = next(at for at, step in zip(heat(job)["time"], heat(job)["step"], strict=True) if step >= SINCE)
    assert event["time"] - began < steps + 2.0, "named within 20 steps"
    assert [entry["verdict"] for entry in job.document()["rank_entries"]] == [None, "data starvation", None]
    lines = [line for line in job.stderr.splitlines() if line.startswith(("  verdict ", "             "))]
    assert 2 <= len(lines) <= 5
    assert "rank 1" in lines[1]
    assert f"trackside diagnose {job.folder()}" in lines[-1]
    said = printed(job, "--json")
    assert [one for one in json.loads(said)["verdicts"] if one["kind"] != "crowded host"] == verdicts(job)
    assert "data starvation: rank 1" in printed(job)
    assert heat(job)["ranks"] == [0, 1, 2]
    assert heat(job)["own"][1][-2] > 1.5 * heat(job)["own"][0][-2]
    assert b'"heat":{"ranks":[0,1,2]' in (job.folder() / "report.html").read_bytes()


def heat(job: Job) -> Any:
    return json.loads((job.folder() / "heat.json").read_text())


def printed(job: Job, *options: str) -> str:
    command = [*TRACKSIDE, "diagnose", str(job.folder()), *options]
    return subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_nothing_is_named_in_a_healthy_job(scratch: Path) -> None:
    job = ran(scratch, "none", "--steps", "120", nproc=2)
    assert verdicts(job) == []
    lines = [line for line in job.stderr.splitlines() if line.startswith("  verdict ")]
    assert len(lines) == 1
    assert "no rank behind" in lines[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("compute", {("straggler", 1, "forward")}),
        ("share", {("imbalance", 1, None)}),
        ("input", {("data starvation", None, "data")}),
        ("collective", set()),
        ("checkpoint", {("slow step", 0, "rest")}),
    ],
)
def test_each_fault_by_its_name(scratch: Path, fault: str, expected: set[tuple[str, int | None, str | None]]) -> None:
    # gloo's own threads need the cores: with more ranks than cores, who waits for one is anybody's luck
    of_collective = fault == "collective"
    work = (
        ("--work", "0.01") if of_collective else ()
    )  # how long a collective takes is the machine's to say: much longer
    job = ran(scratch, fault, "--steps", "220", *work, nproc=2 if of_collective else 4, seconds=500)
    assert blamed(job) == expected
    bound = {"input": "input", "collective": "communication"}.get(fault, "compute")
    assert job.document()["diagnosis"]["bound"] == bound


@pytest.mark.long
def test_a_verdict_is_over_when_its_cause_is(scratch: Path) -> None:
    job = ran(scratch, "compute", "--until", "120", "--steps", "200")
    (verdict,) = verdicts(job)
    assert (verdict["kind"], verdict["rank"], verdict["active"], verdict["pattern"]) == ("straggler", 1, False, "once")
    assert 120 <= verdict["until_step"] <= 180
    assert [event["active"] for event in job.events() if event["kind"] == "straggler"] == [False]


@pytest.mark.long
def test_too_few_cores_are_the_hosts_matter_and_hide_no_rank_that_is_slow(scratch: Path) -> None:
    job = ran(scratch, "data", "--steps", "420", "--since", "240", "--work", "0", "--spin", "0.02")
    kinds = {(one["kind"], one["rank"], one["phase"]) for one in job.document()["diagnosis"]["verdicts"]}
    assert kinds == {("crowded host", None, None), ("data starvation", 1, "data")}
    (event,) = [event for event in job.events() if event["kind"] == "crowded host"]
    assert event["path"].count("/") == 1
    assert "free core" in job.document()["diagnosis"]["bound_text"]


@pytest.mark.long
def test_a_leak_is_named(scratch: Path) -> None:
    job = ran(scratch, "leak", "--steps", "1100", "--work", "0.08")
    assert {(kind, rank) for kind, rank, _ in blamed(job)} == {("memory growth", 1)}


@pytest.mark.long
def test_nothing_is_named_in_2000_healthy_steps(scratch: Path) -> None:
    job = ran(scratch, "none", "--steps", "2000", nproc=8, seconds=900)
    assert verdicts(job) == []
