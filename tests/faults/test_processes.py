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

from tests.faults.job import WatchedTraining, report_of
from tests.faults.outcomes import Tell, show
from tests.faults.page import OpenPage
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
    refused = done.returncode, "rank 0 (pid" in done.stderr, "--force" in done.stderr
    goes_on = show("goes on", training.moves_on(), True)
    training.end()
    training.settle()
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, "its run has ended" in done.stderr) == (1, True), done.stderr
    tell(
        "`trackside recover` while the run goes on",
        training=training.same(),
        points=training.complete(),
        page=(goes_on, show("the command says who is still running", refused, (1, True, True)), training.page_ended()),
        report=training.reported(),
    )


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_controller_killed_again_and_again_costs_no_point(watch: Watch, tell: Tell, kills: int) -> None:
    training = watch()
    training.wait_for_step(20)
    for _ in range(kills):
        training.controller.kill()
        training.controller.resume()
        assert training.moves_on(0)
    training.end()
    training.settle()
    told = [
        sum(event["count"] for event in events if event["kind"] == "controller restarted")
        for events in (training.page.events, training.events(), training.report()["events"])
    ]
    tell(
        f"the controller is killed by SIGKILL, {kills} times",
        training=training.same(),
        points=training.complete(),
        page=(
            training.page_ended(words="the same address"),
            show(f"an event counts {kills} restarts, in the run folder and the report too", told, [kills] * 3),
        ),
        report=training.reported(),
    )


@pytest.mark.long
def test_a_controller_that_stands_still_delays_nothing(watch: Watch, tell: Tell) -> None:
    training = watch()
    training.wait_for_step(20)
    os.kill(training.controller.process.pid, signal.SIGSTOP)
    before = training.page.run
    try:
        training.end(seconds=60)
    finally:
        stands = show("stands still", training.page.run["state"], before["state"])
        os.kill(training.controller.process.pid, signal.SIGCONT)
    training.settle()
    tell(
        "the controller is stopped (SIGSTOP) until the training has ended",
        training=training.same(),
        points=training.complete(),
        page=(stands, training.page_ended(words="then it is told the end")),
        report=training.reported(),
    )


def test_a_rank_that_stands_still_is_late_and_comes_back(watch: Watch, tell: Tell) -> None:
    training = watch(controller_env={"TRACKSIDE_LATE_AFTER": "2"})
    training.wait_for_step(20)
    os.kill(training.process.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: training.get("api/v1/ranks")[0]["state"] == "late", 30, "the rank is late")
    finally:
        os.kill(training.process.pid, signal.SIGCONT)
    assert training.moves_on()
    wait_for(lambda: training.page.states()[2:], 30, "it is heard again")
    training.end()
    training.settle()
    tell(
        "a rank is stopped (SIGSTOP) for some seconds",
        training=training.same(),
        points=training.complete(),
        page=(
            show("alive, late, alive again", training.page.states()[:3], ["alive", "late", "alive"]),
            training.page_ended(),
        ),
        report=training.reported(),
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
    gone = training.page_is_gone()
    found = recover(training.controller.folder)
    assert (found["points"], found["state"]) == (training.steps, "finished")  # it said so, by `finish()`
    taken = found["spools"], spool.exists()
    tell(
        "the controller is killed and nobody starts it again",
        training=training.same(),
        points=(
            show("the rank names the file that holds the rest", str(spool) in said, True),
            show("`trackside recover` takes it in", taken, ([str(spool)], False)),
            training.complete(),
        ),
        page=gone,
        report=training.reported(words="finished, with all points, by `trackside recover`"),
    )


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGABRT, signal.SIGSEGV))],
    ids=lambda number: number.name,
)
def test_a_killed_rank_loses_nothing(watch: Watch, tell: Tell, number: signal.Signals) -> None:
    training = watch(hz=150)
    training.wait_for_step(300)
    os.kill(training.process.pid, number)
    killed = training.killed(number)
    training.settle()
    document = training.document()
    assert (document["ranks"]["failed"], document["state_detail"].endswith(number.name)) == (1, True)
    training.assert_nothing_left_behind()
    training.assert_last_step_is_told()
    tell(
        f"a rank is killed by {number.name}",
        training=killed,
        points=training.lost_nothing(),
        page=training.page_ended("failed"),
        report=training.reported("failed", "failed, with all points, and says the same"),
    )


def test_a_killed_rank_that_logs_very_often_loses_less_than_its_last_turn_which_is_said(
    watch: Watch, tell: Tell
) -> None:
    """Of more than 200 calls a second, 200 are copied at once; what came between is in a file a turn later."""
    training = watch(hz=1000)
    training.wait_for_step(500)
    training.process.kill()
    killed = training.killed()
    training.settle()
    steps = [step for step, _ in training.points()]
    whole = next(at for at, step in enumerate([*steps, -1]) if at != step)
    assert whole >= 500
    assert training.told() - steps[-1] <= 40
    lost = steps[-1] + 1 - len(steps)
    counted = sum(event["count"] for event in training.events() if event["kind"] == "calls lost")
    tell(
        "a rank that logs 1,000 times a second is killed",
        training=killed,
        points=show("all but some of its last turn, each once; how many is said", counted, lost),
        page=training.page_ended("failed"),
        report=training.reported("failed", "failed, with these points, and says the same"),
    )


def test_a_rank_killed_while_its_link_is_dead_loses_nothing(watch: Watch, tell: Tell) -> None:
    """What could not be sent is in its files too."""
    training = watch(hz=150)
    training.wait_for_step(100)
    training.link.blackhole()
    reached = training.told()
    wait_for(lambda: training.told() > reached + 300, 20, "calls that nobody hears of")
    training.process.kill()
    killed = training.killed()
    training.settle()
    training.assert_nothing_left_behind()
    training.assert_last_step_is_told()
    tell(
        "a rank is killed while nothing gets through the network",
        training=killed,
        points=training.lost_nothing(),
        page=training.page_ended("failed"),
        report=training.reported("failed"),
    )


def test_everything_on_the_host_dies_at_once(watch: Watch, tell: Tell) -> None:
    training = watch(hz=150)
    training.wait_for_step(300)
    training.controller.process.kill()
    training.process.kill()
    killed = training.killed()
    training.controller.process.wait(10)
    gone = training.page_is_gone()
    found = recover(training.controller.folder)
    assert found["points"] == len(training.points())
    training.assert_nothing_left_behind()
    training.assert_last_step_is_told()
    tell(
        "rank and controller are killed at once",
        training=killed,
        points=training.lost_nothing(),
        page=gone,
        report=training.reported("failed", "failed, with all points, by `trackside recover`"),
    )


@pytest.mark.long
def test_a_controller_away_for_long_and_then_everything_dead(watch: Watch, tell: Tell) -> None:
    training = watch(hz=150)
    training.wait_for_step(100)
    training.controller.kill()
    reached = training.told()
    wait_for(lambda: training.told() > reached + 1500, 30, "calls that nobody hears of")
    training.process.kill()
    killed = training.killed()
    gone = training.page_is_gone()
    found = recover(training.controller.folder)
    assert found["points"] == len(training.points())
    training.assert_nothing_left_behind()
    training.assert_last_step_is_told()
    tell(
        "the controller is away for long, then the rank is killed as well",
        training=killed,
        points=training.lost_nothing(),
        page=gone,
        report=training.reported("failed", "failed, with all points, by `trackside recover`"),
    )


@pytest.mark.long
def test_asked_to_end_and_killed_five_seconds_later(watch: Watch, tell: Tell) -> None:
    """As cluster managers do it, with a script that goes on after SIGTERM."""
    training = watch(hz=150, stubborn=True)
    training.wait_for_step(100)
    training.process.terminate()
    at, asked = training.told(), time.monotonic()
    wait_for(lambda: time.monotonic() - asked > 5, 10, "five seconds")
    training.process.kill()
    killed = training.killed()
    training.settle()
    assert "SIGKILL" in training.document()["state_detail"]
    training.assert_nothing_left_behind()
    tell(
        "asked to end (SIGTERM, which the script ignores), killed five seconds later",
        training=(show("goes on", training.told() > at + 400, True), killed),
        points=training.lost_nothing(),
        page=training.page_ended("failed"),
        report=training.reported("failed", "failed, with all points, and says the same"),
    )


@pytest.mark.long
def test_two_generations_lose_nothing_between_them(tell: Tell, tmp_path: Path) -> None:
    """A rank kills itself, the launcher ends the other and starts both again; every call that returned is there once."""
    counts = tmp_path / "counts"
    counts.mkdir()
    script = Path(__file__).parent / "scripts/generations.py"
    options = ("--nproc-per-node", "2", "--max-restarts", "1", "--port", "0", "--no-instrument")
    job = Job([*TRACKSIDE, "run", *options, str(script), "--counts", str(counts)], tmp_path)
    page = None
    try:
        page = OpenPage(f"{job.url()}/")
        ended = show("exit 0 in the second generation", job.wait(120), 0)
        points = job.points()
        lost = [path.name for path in counts.iterdir() if not is_whole(points, path)]
        assert sorted(path.name for path in counts.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
        report = report_of(job.folder() / "report.html")
        tell(
            "a rank kills itself, the launcher starts all again",
            training=ended,
            points=show("all of both generations, each once", lost, []),
            page=show("finished", page.ending(), ("finished", job.document()["state_detail"])),
            report=show(
                "finished, with all points",
                (report["run"]["state"], report["metrics"][0]["points"]),
                ("finished", len(points)),
            ),
        )
    finally:
        job.close()
        if page is not None:
            page.close()


def test_a_rank_of_a_launched_job_that_is_killed_is_said_to_have_come_as_far_as_its_points(
    tell: Tell, tmp_path: Path
) -> None:
    """The launcher knows of its end before what it had in memory has been taken in."""
    counts = tmp_path / "counts"
    counts.mkdir()
    script = Path(__file__).parent / "scripts/generations.py"
    options = ("--nproc-per-node", "2", "--port", "0", "--no-instrument")
    job = Job(
        [*TRACKSIDE, "run", *options, str(script), "--counts", str(counts), "--hz", "150", "--points", "400"],
        tmp_path,
    )
    page = None
    try:
        page = OpenPage(f"{job.url()}/")
        ended = show("the launcher's own exit code", job.wait(120), 128 + signal.SIGKILL)
        points = job.points()
        last = int(points[points["rank"] == 1].step.max())
        (failed,) = (event for event in job.events() if event["kind"] == "rank failed")
        (line,) = (line for line in job.stderr.splitlines() if "rank failed" in line)
        (entry,) = (entry for entry in job.document()["rank_entries"] if entry["rank"] == 1)
        words = f"killed by SIGKILL, last step {last:,}"
        said = (failed["step"], words in failed["text"], words in line, entry["step"])
        report = report_of(job.folder() / "report.html")
        tell(
            "a rank of a launched job is killed by SIGKILL",
            training=ended,
            points=show(
                "all that both logged, each once", [is_whole(points, path) for path in counts.iterdir()], [True] * 2
            ),
            page=(
                show(
                    "the step that it came to is the last one of its points, on the terminal too",
                    said,
                    (last, True, True, last),
                ),
                show("failed", page.ending(), ("failed", job.document()["state_detail"])),
            ),
            report=show(
                "failed, with all points",
                (report["run"]["state"], report["metrics"][0]["points"]),
                ("failed", len(points)),
            ),
        )
    finally:
        job.close()
        if page is not None:
            page.close()


def is_whole(points: Any, counted: Path) -> bool:
    """Whether every call of log() that had returned in a process is there, once; one more may have been under way."""
    generation, rank = map(int, counted.name.split("-"))
    told = int.from_bytes(counted.read_bytes(), "little")
    steps = sorted(points[(points.generation == generation) & (points["rank"] == rank)].step.tolist())
    return steps == list(range(len(steps))) and told <= len(steps) <= told + 1
