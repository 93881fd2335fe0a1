"""Each example runs as its first lines say, and its run folder holds what it should."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = [*TRACKSIDE, "run", "--port", "0", "--nproc-per-node", "2"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


def finished(command: list[str], folder: Path) -> Job:
    """The job after its end; beside a plain script the controller takes a moment longer than the script itself."""
    job = Job(command, folder, TRACKSIDE_PORT="0")
    try:
        assert job.wait(120) == 0, job.stderr
        report = job.folder() / "report.html"
        wait_for(report.is_file, 20, f"the report\n{job.stderr}")
        wait_for(lambda: not report.with_name("journal").exists(), 10, "the journal gone")
    finally:
        job.close()
    assert job.document()["state"] == "finished", job.stderr
    return job


def counts(job: Job) -> dict[tuple[str, int], int]:
    """Stored points by metric and rank."""
    points: Any = job.points()
    return {key: int(number) for key, number in points.groupby(["series", "rank"]).size().items()}


def test_single(scratch: Path) -> None:
    job = finished([sys.executable, str(EXAMPLES / "single.py"), "--epochs", "2"], scratch)
    assert counts(job)["loss", 0] == 2 * 45
    assert job.document()["epoch"] is not None
    assert "epoch 1/2" in job.stderr


@pytest.mark.long
@pytest.mark.parametrize("launcher", [RUN, TORCHRUN], ids=["trackside run", "torchrun"])
def test_ddp(scratch: Path, launcher: list[str]) -> None:
    job = finished([*launcher, str(EXAMPLES / "ddp.py"), "--epochs", "4"], scratch)
    stored = counts(job)
    assert {key: stored[key] for key in stored if key[0] in ("loss", "lr", "grad_norm")} == {
        (metric, rank): 4 * 45 for metric in ("loss", "lr", "grad_norm") for rank in (0, 1)
    }
    entries = {entry["rank"]: entry for entry in job.document()["rank_entries"]}
    assert {rank: entry["state"] for rank, entry in entries.items()} == {0: "finished", 1: "finished"}
    assert all(entry["throughput"] > 0 for entry in entries.values())
    assert len(list(job.runs.iterdir())) == 1


@pytest.mark.long
def test_plain(scratch: Path) -> None:
    job = finished([*RUN, str(EXAMPLES / "plain.py"), "--epochs", "60"], scratch)
    entries = {entry["rank"]: entry for entry in job.document()["rank_entries"]}
    assert {rank: (entry["state"], entry["exit_code"]) for rank, entry in entries.items()} == {
        0: ("finished", 0),
        1: ("finished", 0),
    }
    assert all(entry["memory"] and entry["step"] and entry["phases"]["backward"] for entry in entries.values())
    assert "r1] epoch 59: loss" in job.stdout


@pytest.mark.long
def test_slow_rank(scratch: Path) -> None:
    options = ["--slow", "1", "--since", "20", "--steps", "70", "--seconds", "0.25", "--batch-size", "16"]
    job = finished([*RUN, str(EXAMPLES / "slow_rank.py"), *options], scratch)
    verdicts = job.document()["diagnosis"]["verdicts"]
    assert ("data starvation", 1, "data") in {(one["kind"], one["rank"], one["phase"]) for one in verdicts}
    assert any(line.startswith("  verdict ") for line in job.stderr.splitlines())


def test_demo(scratch: Path) -> None:
    job = finished([*TRACKSIDE, "demo", "--port", "0", "--epochs", "2", "--seconds", "2"], scratch)
    stored = counts(job)
    assert stored["loss", 0] == stored["loss", 1] > 0
    lines = job.stderr.splitlines()
    assert "http://localhost:" in lines[0]
    assert lines[-1] == f"  report     {job.folder() / 'report.html'}"
