"""What a machine does to a run: its clock jumps, its descriptors, processor or quota are used up, its disk turns read-only."""

import errno
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.interposed import Interposed
from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell, show
from tests.faults.pressure import CpuLimit, NoDescriptors
from tests.process.job import wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
Watch = Callable[..., WatchedTraining]

JUMPS = [
    (300, "rank"),
    *(
        pytest.param(*jump, marks=pytest.mark.long)
        for jump in ((-300, "rank"), (300, "controller"), (-300, "controller"))
    ),
]


@pytest.mark.parametrize(("seconds", "whose"), JUMPS)
def test_a_wall_clock_that_jumps_changes_no_order_and_no_duration(
    watch: Watch, tell: Tell, tmp_path: Path, seconds: int, whose: str
) -> None:
    clock, began = Interposed(tmp_path), time.monotonic()
    training = watch(**(clock.env if whose == "rank" else {"controller_env": clock.env}))
    training.wait_for_step(50)
    clock.jump_clock(seconds)
    warned = wait_for(
        lambda: [e for e in training.get("api/v1/events") if "clock" in e["kind"]], 60, "the offset on the page"
    )
    wait_for(lambda: abs(training.get("api/v1/ranks")[0]["clock_offset_seconds"] or 0) > 250, 30, "the offset")
    assert training.moves_on(100)
    (rank,) = training.get("api/v1/ranks")
    off_s, _, words = warned[0]["text"].partition(" is ")[2].partition(" ")
    warning = (abs(float(off_s) - abs(seconds)) < 2, words, rank["state"], rank["age_seconds"] < 30)
    training.end()
    training.settle()
    took = time.monotonic() - began
    report = training.report()["run"]
    tell(
        f"the {whose}'s wall clock jumps by {seconds:+} s",
        training=training.same(),
        points=training.complete(),
        page=(show(warned[0]["text"], warning, (True, "s off the controller's", "alive", True)), training.page_ended()),
        report=(
            training.reported(),
            show("its duration is right", 0 <= report["elapsed_seconds"] <= took, True),
        ),
    )


@pytest.mark.long
def test_a_rank_without_descriptors_trains_on_and_reports_later(watch: Watch, tell: Tell) -> None:
    """Its connection is cut while it cannot open another."""
    training = watch()
    training.wait_for_step(30)
    limit = NoDescriptors(training.process.pid)
    training.link.cut()
    aged = wait_for(lambda: training.get("api/v1/ranks")[0]["age_seconds"] > 1.5, 20, "silence on the page")
    training.link.heal()
    back = training.moves_on(100)  # by the one descriptor that the cut gave back
    limit.release()
    training.end()
    training.settle()
    tell(
        "a rank has no file descriptors left, and loses its connection",
        training=training.same(),
        points=training.complete(),
        page=(
            show("the rank's age grows", aged, True),
            show("then it is up to date", back, True),
            training.page_ended(),
        ),
        report=training.reported(),
    )


@pytest.mark.parametrize("spare", [0, pytest.param(3, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.long)])
def test_a_rank_that_begins_with_no_or_few_descriptors_trains_on(watch: Watch, tell: Tell, spare: int) -> None:
    """They are taken as soon as there is a `Monitor`, and given back while it trains. libzmq would end the process, were it asked."""
    training = watch(hogs=2.0, spare=spare)
    training.wait_for_step(300)
    training.end()
    training.settle()
    tell(
        f"a rank begins with {spare or 'no'} file descriptors to spare",
        training=training.same(),
        points=training.complete(),
        page=(
            show("the rank is there as soon as it has some", training.page.states()[:1], ["alive"]),
            training.page_ended(),
        ),
        report=training.reported(),
    )


@pytest.mark.long
def test_a_controller_without_descriptors_goes_on_with_those_it_has(watch: Watch, tell: Tell) -> None:
    training = watch()
    training.wait_for_step(30)
    limit = NoDescriptors(training.controller.process.pid)
    training.link.reset()  # the rank comes back
    address = ("127.0.0.1", int(training.url.rsplit(":", 1)[1].strip("/\n")))
    idle = [socket.create_connection(address) for _ in range(6)]  # visitors take what there is
    turned_away = show("no new visitor while there are none", answers(training), False)
    limit.release()
    for visitor in idle:
        visitor.close()
    wait_for(training.step, 60, "the page")
    back = show("then it is up to date", training.moves_on(100), True)
    training.end()
    training.settle()
    tell(
        "the controller has no file descriptors left",
        training=training.same(),
        points=training.complete(),
        page=(turned_away, back, training.page_ended()),
        report=training.reported(),
    )


def answers(training: WatchedTraining) -> bool:
    """Whether a new visitor of the page is answered."""
    try:
        training.get("healthz")
    except OSError:
        return False
    return True


@pytest.mark.long
@pytest.mark.skipif(not CpuLimit.is_possible(), reason="limiting the processor needs a writable control group")
@pytest.mark.parametrize("whose", ["rank", "controller"])
def test_a_starved_processor_delays_and_loses_nothing(watch: Watch, tell: Tell, whose: str) -> None:
    training = watch()
    training.wait_for_step(30)
    with CpuLimit(0.03) as limit:
        limit.take(training.process.pid if whose == "rank" else training.controller.process.pid)
        at = training.step()
        goes_on = wait_for(lambda: training.step() > at + 60, 120, "steps all the same")
    training.end()
    training.settle()
    tell(
        f"the {whose} gets 3 % of a core",
        training=training.same(),
        points=training.complete(),
        page=(show("goes on", goes_on, True), training.page_ended()),
        report=training.reported(),
    )


REFUSALS = [
    (errno.EDQUOT, "the quota of the run folder is used up"),
    (errno.EROFS, "the run folder turns read-only"),
    (errno.EIO, "the run folder's disk fails"),
]


@pytest.mark.long
@pytest.mark.parametrize(("number", "fault"), REFUSALS)
def test_a_disk_that_refuses_costs_nothing_once_it_takes_again(
    watch: Watch, tell: Tell, tmp_path: Path, number: int, fault: str
) -> None:
    (tmp_path / "mount").mkdir()
    disk = Interposed(tmp_path, tmp_path / "mount")
    training = watch(runs=tmp_path / "mount", controller_env=disk.env)
    training.wait_for_step(50)
    disk.refuse(number)
    stalled = training.stalls(os.strerror(number))
    disk.heal()
    training.persists_again()
    training.end()
    training.settle()
    tell(
        fault,
        training=training.same(),
        points=training.complete(),
        page=(stalled, training.page_ended()),
        report=training.reported(),
    )
