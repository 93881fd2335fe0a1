"""The main job end to end: launched, seen live, killed in every way, counted afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.job import Job, wait_for

POINTS = 300
METRICS = 2


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    jobs: list[Job] = []

    def begin(*arguments: str, **options: object) -> Job:
        jobs.append(Job.run("steady.py", tmp_path, *arguments, **options))  # type: ignore[arg-type]
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


def assert_every_point_once(job: Job, ranks: int = 2, points: int = POINTS) -> None:
    frame = job.points()
    counts = frame.groupby(["rank", "series"]).step.agg(["size", "nunique"])
    assert counts["size"].tolist() == [points] * (METRICS * ranks), counts
    assert counts["nunique"].tolist() == [points] * (METRICS * ranks), counts


def both_alive(job: Job) -> bool:
    return [entry["state"] for entry in job.get("api/v1/ranks")] == ["alive", "alive"]


def test_two_ranks_are_seen_live_and_every_point_is_kept(start) -> None:  # type: ignore[no-untyped-def]
    job = start()
    job.url()
    wait_for(lambda: both_alive(job), 10, "both ranks alive")
    series = wait_for(lambda: job.get("api/v1/series?metric=loss&points=1000")["x"], 5, "points of loss")
    assert series[0] == 0
    code = job.wait()
    assert (code, job.stdout.count(f"accepted {POINTS}")) == (0, 2), job.stderr
    assert_every_point_once(job)
    document = job.document()
    assert (document["state"], document["world_size"]) == ("finished", 2)
    assert document["ranks"]["finished"] == 2
    assert (job.folder() / "report.html").stat().st_size > 10_000
    assert not (job.folder() / "journal").exists()
    assert str(job.folder() / "report.html") in job.stderr


def test_a_killed_controller_comes_back_and_nothing_is_lost(start) -> None:  # type: ignore[no-untyped-def]
    job = start("--points", "600")
    wait_for(lambda: job.get("api/v1/series?metric=loss")["total_points"] > 50, 15, "some points")
    url, first = job.url(), job.controller_pid()
    job.kill(first)
    wait_for(lambda: job.controller_pid() != first and both_alive(job), 15, "the page back with both ranks")
    assert job.url() == url
    assert job.wait() == 0, job.stderr
    assert job.stdout.count("accepted 600") == 2
    assert_every_point_once(job, points=600)
    assert job.document()["state"] == "finished"


def test_a_killed_launcher_leaves_ranks_and_page_alone(start) -> None:  # type: ignore[no-untyped-def]
    job = start("--points", "600")
    wait_for(lambda: both_alive(job), 15, "both ranks alive")
    folder = job.folder()
    job.kill()
    wait_for((folder / "report.html").exists, 40, "the report after the ranks' end")
    wait_for(lambda: not (folder / "journal").exists(), 10, "the journal gone")
    assert_every_point_once(job, points=600)
    assert "launcher" in " ".join(event["text"] + event["kind"] for event in job.events())
