"""Ranks of real jobs that stand still, come back, end early, or have another idea of the time."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
Start = Callable[..., Job]


@pytest.fixture
def start(scratch: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def begin(script: str, *arguments: str, options: tuple[str, ...] = ()) -> Job:
        command = [*TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0", *options, str(SCRIPTS / script)]
        jobs.append(Job([*command, *arguments], scratch))
        jobs[-1].url(90)
        return jobs[-1]

    yield begin
    (scratch / "stop").touch()
    for job in jobs:
        job.close()


def rank_of(job: Job, number: int) -> dict[str, Any]:
    return next(entry for entry in job.get("api/v1/ranks") if entry["rank"] == number)


def test_b30_b31_d39_a_stopped_rank_is_late_then_lost_and_back_when_it_goes_on(scratch: Path, start: Start) -> None:
    job = start("phased.py", str(scratch / "stop"), options=("--late-after", "6", "--lost-after", "12"))
    wait_for(lambda: (rank_of(job, 1)["step"] or 0) > 20 and (rank_of(job, 0)["step"] or 0) > 20, 60, "both at work")
    pid = job.worker_pids()[1]
    job.kill(pid, signal.SIGSTOP)
    wait_for(lambda: rank_of(job, 1)["state"] == "late", 30, "late")
    frozen = rank_of(job, 1)
    assert [event["kind"] for event in job.get("api/v1/events")].count("rank lost") == 0
    wait_for(lambda: rank_of(job, 1)["state"] == "lost", 30, "lost")
    run = job.get("api/v1/run")
    assert (rank_of(job, 0)["state"], run["state"], run["ranks"]["lost"]) == ("alive", "running", 1)
    (warning,) = [warning for warning in run["warnings"] if warning["kind"] == "rank lost"]
    host, path = frozen["host"], frozen["path"]
    assert warning["text"].startswith(
        f"{host} rank1 lost: last step {frozen['step']:,}, phase {frozen['phase']}, silent "
    )
    assert (warning["path"], warning["severity"], frozen["phase"] is None) == (path, "critical", False)

    job.kill(pid, signal.SIGCONT)
    wait_for(lambda: rank_of(job, 1)["state"] == "alive", 30, "back")
    wait_for(lambda: rank_of(job, 1)["step"] > frozen["step"], 30, "its steps going on")
    assert [w for w in job.get("api/v1/run")["warnings"] if w["kind"] == "rank lost"] == []
    (scratch / "stop").touch()
    assert job.wait() == 0
    events = {event["kind"]: event for event in job.events() if event["path"] == path}
    assert (events["rank lost"]["count"], events["rank lost"]["active"]) == (1, False)
    assert f"{host}:lr=1 gr=1 speaks again after" in events["rank back"]["text"]
    points = job.points()
    mine = sorted(points[(points["rank"] == 1) & (points["series"] == "loss")]["step"])
    assert mine == list(range(len(mine))), "what it logged is whole"
    assert job.document()["state"] == "finished"


@pytest.mark.long
def test_b32_lesson_no_false_alarms_at_teardown(scratch: Path, start: Start) -> None:
    """One rank is done long before the other, and its process stays; then everything ends."""
    job = start("phased.py", str(scratch / "stop"), "--first", "0", options=("--late-after", "3", "--lost-after", "5"))
    wait_for(lambda: rank_of(job, 0)["state"] == "finished", 60, "the first is done")
    wait_for(lambda: rank_of(job, 0)["age_seconds"] > 6, 60, "a silence that would be too long")
    assert rank_of(job, 0)["state"] == "finished"
    (scratch / "stop").touch()
    assert job.wait() == 0
    alarms = [event for event in job.events() if event["kind"] in ("rank lost", "rank back", "rank failed")]
    assert [event["text"] for event in alarms if "rank0" in event["path"] or event["kind"] == "rank failed"] == []
    assert (job.document()["state"], job.document()["state_detail"]) == ("finished", None)


@pytest.mark.long
def test_b20_a_scripts_own_port_under_the_launcher_is_one_warning(scratch: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        wanted = free.getsockname()[1]
    job = start("serving.py", str(scratch / "stop"), str(wanted))
    bound = job.url().rpartition(":")[2]
    text = f"rank 1 asked for port {wanted}; the page is bound to port {bound} and stays there"
    wait_for(lambda: f"warn     port: {text}" in job.stderr, 60, "the warning on the terminal")
    (scratch / "stop").touch()
    assert job.wait() == 0
    assert [(event["text"], event["count"]) for event in job.events() if event["kind"] == "port"] == [(text, 1)]
    assert job.stderr.count("asked for port") == 1


@pytest.mark.long
def test_b33_a_clock_that_is_off_is_shown_and_no_duration_follows_it(scratch: Path, start: Start) -> None:
    job = start("skewed.py", str(scratch / "stop"))
    ahead = wait_for(lambda: rank_of(job, 0)["clock_offset_seconds"], 60, "a measured offset")
    assert ahead == pytest.approx(-20, abs=2)
    wait_for(lambda: job.get("api/v1/run")["clock_offset_max"], 10, "the largest offset in the run's document")
    behind = wait_for(lambda: (o := rank_of(job, 1)["clock_offset_seconds"] or 0) > 3000 and o, 60, "the new offset")
    assert behind == pytest.approx(3600, abs=5)
    (scratch / "stop").touch()
    assert job.wait() == 0
    texts = [event["text"] for event in job.events() if event["kind"] == "clock offset"]
    assert any("20." in text or "19." in text for text in texts), texts
    document = job.document()
    assert 4 < document["elapsed_seconds"] < 600
    points = job.points()
    for rank in (0, 1):
        mine = points[(points["rank"] == rank) & (points["series"] == "loss")]
        assert list(mine.sort_values("step")["value"]) == [float(step) for step in range(100)]
    epochs = pd.read_parquet(job.folder() / "epochs.parquet")
    assert (epochs["seconds"] > 1.5).all()
    assert (epochs["seconds"] < 300).all()
