"""What the death or stand-still of a process costs: never a point that another process could still hold."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell
from tests.process.job import TRACKSIDE, Job, clean_environment, wait_for
from trackside.wire.spool import read_spool

pytestmark = pytest.mark.usefixtures("leak_check")
Watch = Callable[..., WatchedTraining]


def recover(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "trackside", "recover", str(folder), "--json"],
        env=clean_environment(TMPDIR=str(folder.parent)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_what_is_not_over_is_not_recovered(watch: Watch, tell: Tell) -> None:
    training = watch()
    training.wait_for_step(50)
    folder = training.controller.folder
    command = [sys.executable, "-m", "trackside", "recover", str(folder)]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, "rank 0 (pid" in done.stderr, "--force" in done.stderr) == (1, True, True), done.stderr
    training.end()
    training.settle()
    training.assert_complete()
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, "its run has ended" in done.stderr) == (1, True), done.stderr
    tell(
        "`trackside recover` while the run goes on",
        training="same",
        points="all, each once",
        page="goes on; the command says who is still running",
        report="finished",
    )


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_controller_killed_again_and_again_costs_no_point(watch: Watch, tell: Tell, kills: int) -> None:
    training = watch()
    training.wait_for_step(20)
    for _ in range(kills):
        training.controller.kill()
        training.controller.resume()
        reached = training.step()
        wait_for(lambda at=reached: training.step() > at, 30, "new points")
    training.end()
    training.settle()
    training.assert_complete()
    document = training.document()
    assert (document["state"], document["ranks"]["finished"]) == ("finished", 1)
    assert sum(e["count"] for e in training.events() if e["kind"] == "controller restarted") == kills
    report = training.report()
    assert report["metrics"][0]["points"] == training.steps
    tell(
        f"the controller is killed by SIGKILL, {kills} times",
        training="same",
        points="all, each once",
        page="the same address; an event counts the restarts",
        report="finished",
    )


@pytest.mark.long
def test_a_controller_that_stands_still_delays_nothing(watch: Watch, tell: Tell) -> None:
    training = watch()
    training.wait_for_step(20)
    os.kill(training.controller.process.pid, signal.SIGSTOP)
    try:
        training.end(seconds=60)
    finally:
        os.kill(training.controller.process.pid, signal.SIGCONT)
    training.settle()
    training.assert_complete()
    assert training.document()["state"] == "finished"
    tell(
        "the controller is stopped (SIGSTOP) until the training has ended",
        training="same",
        points="all, each once",
        page="stands still; then all is there",
        report="finished",
    )


def test_a_controller_gone_for_good_leaves_its_part_and_the_rank_its_own(
    watch: Watch, tell: Tell, tmp_path: Path
) -> None:
    training = watch(exits=3)
    training.wait_for_step(50)
    training.controller.kill()
    said = training.end()
    (spool,) = (training.controller.folder / "spool").glob("*.spool")
    assert str(spool) in said
    assert len(list(read_spool(spool))) > 1
    found = recover(training.controller.folder)
    training.assert_complete()
    assert (found["points"], found["spools"]) == (training.steps, [str(spool)])
    assert not spool.exists()
    assert (training.document()["state"], found["state"]) == ("finished", "finished")  # it said so, by `finish()`
    assert training.report()["run"]["step"] == training.steps - 1
    tell(
        "the controller is killed and nobody starts it again",
        training="same",
        points="all: the rank names the file that holds the rest, `trackside recover` takes it in",
        page="gone",
        report="written by `trackside recover`",
    )


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGABRT, signal.SIGSEGV))],
    ids=lambda number: number.name,
)
def test_a_killed_rank_loses_nothing(watch: Watch, tell: Tell, number: signal.Signals) -> None:
    training = watch(hz=500)
    training.wait_for_step(300)
    os.kill(training.process.pid, number)
    assert training.process.wait(10) == -number
    training.settle()
    count = training.assert_nothing_lost()
    document, report = training.document(), training.report()
    assert (document["state"], document["ranks"]["failed"]) == ("failed", 1)
    assert (report["run"]["state_detail"], report["metrics"][0]["points"]) == (document["state_detail"], count)
    training.assert_nothing_left_behind()
    tell(
        f"a rank is killed by {number.name}",
        training="killed, as without us",
        points="all that it logged, each once",
        page=document["state_detail"],
        report="failed, and says the same",
    )


def test_a_rank_killed_while_its_link_is_dead_loses_nothing(watch: Watch, tell: Tell) -> None:
    """What could not be sent is in its files too."""
    training = watch(hz=500)
    training.wait_for_step(100)
    training.link.blackhole()
    reached = training.told()
    wait_for(lambda: training.told() > reached + 700, 20, "calls that nobody hears of")
    training.process.kill()
    training.process.wait(10)
    training.settle()
    count = training.assert_nothing_lost()
    assert training.report()["metrics"][0]["points"] == count
    training.assert_nothing_left_behind()
    tell(
        "a rank is killed while nothing gets through the network",
        training="killed, as without us",
        points="all that it logged, each once",
        page="late, then failed",
        report="failed, with all points",
    )


def test_everything_on_the_host_dies_at_once(watch: Watch, tell: Tell) -> None:
    training = watch(hz=500)
    training.wait_for_step(300)
    training.controller.process.kill()
    training.process.kill()
    training.process.wait(10)
    training.controller.process.wait(10)
    found = recover(training.controller.folder)
    assert found["points"] == training.assert_nothing_lost()
    assert training.document()["state"] == "failed"
    training.assert_nothing_left_behind()
    tell(
        "rank and controller are killed at once",
        training="killed, as without us",
        points="all that was logged, each once",
        page="gone",
        report="written by `trackside recover`: failed",
    )


@pytest.mark.long
def test_a_controller_away_for_long_and_then_everything_dead(watch: Watch, tell: Tell) -> None:
    training = watch(hz=800)
    training.wait_for_step(100)
    training.controller.kill()
    reached = training.told()
    wait_for(lambda: training.told() > reached + 4000, 30, "calls that nobody hears of")
    training.process.kill()
    training.process.wait(10)
    found = recover(training.controller.folder)
    assert found["points"] == training.assert_nothing_lost()
    training.assert_nothing_left_behind()
    tell(
        "the controller is away for long, then the rank is killed as well",
        training="killed, as without us",
        points="all that was logged, each once",
        page="gone",
        report="written by `trackside recover`",
    )


@pytest.mark.long
def test_asked_to_end_and_killed_five_seconds_later(watch: Watch, tell: Tell) -> None:
    """As cluster managers do it, with a script that goes on after SIGTERM."""
    training = watch(hz=500, stubborn=True)
    training.wait_for_step(100)
    training.process.terminate()
    at, asked = training.told(), time.monotonic()
    wait_for(lambda: time.monotonic() - asked > 5, 10, "five seconds")
    training.process.kill()
    assert training.process.wait(10) == -signal.SIGKILL
    training.settle()
    assert training.assert_nothing_lost() > at
    document = training.document()
    assert (document["state"], "SIGKILL" in document["state_detail"]) == ("failed", True)
    assert training.report()["run"]["state_detail"] == document["state_detail"]
    training.assert_nothing_left_behind()
    tell(
        "asked to end (SIGTERM, which the script ignores), killed five seconds later",
        training="goes on, then killed, as without us",
        points="all that it logged, each once",
        page=document["state_detail"],
        report="failed, and says the same",
    )


@pytest.mark.long
def test_two_generations_lose_nothing_between_them(tell: Tell, tmp_path: Path) -> None:
    """A rank kills itself, the launcher ends the other and starts both again; every call that returned is there once."""
    counts = tmp_path / "counts"
    counts.mkdir()
    script = Path(__file__).parent / "scripts/generations.py"
    options = ("--nproc-per-node", "2", "--max-restarts", "1", "--port", "0", "--no-instrument")
    job = Job([*TRACKSIDE, "run", *options, str(script), "--counts", str(counts)], tmp_path)
    try:
        assert job.wait(120) == 0, job.stderr
        points = job.points()
        for path in counts.iterdir():
            generation, rank = map(int, path.name.split("-"))
            told = int.from_bytes(path.read_bytes(), "little")
            steps = sorted(points[(points.generation == generation) & (points["rank"] == rank)].step.tolist())
            assert steps == list(range(len(steps))), path.name
            assert told <= len(steps) <= told + 1, path.name
        assert sorted(path.name for path in counts.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
        assert (job.document()["state"], job.document()["metrics"][0]["points"]) == ("finished", len(points))
    finally:
        job.close()
    tell(
        "a rank kills itself, the launcher starts all again",
        training="exit 0 in the second generation",
        points="all of both generations, each once",
        page="finished",
        report="finished",
    )
