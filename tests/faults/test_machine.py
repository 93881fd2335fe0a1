"""What a machine does to a run: its clock jumps, its descriptors, processor or quota are used up, its disk turns read-only."""

import errno
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.interposed import Interposed
from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell
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
    clock = Interposed(tmp_path)
    training = watch(**(clock.env if whose == "rank" else {"controller_env": clock.env}))
    training.wait_for_step(50)
    clock.jump_clock(seconds)
    warned = wait_for(
        lambda: [e for e in training.get("api/v1/events") if "clock" in e["kind"]], 60, "the offset on the page"
    )
    offset = wait_for(lambda: abs(training.get("api/v1/ranks")[0]["clock_offset_seconds"] or 0) > 250, 30, "the offset")
    at = training.step()
    wait_for(lambda: training.step() > at + 100, 30, "news")
    (rank,) = training.get("api/v1/ranks")
    assert rank["state"] == "alive"
    assert rank["age_seconds"] < 30
    assert offset
    training.end()
    training.settle()
    training.assert_complete()
    document = training.document()
    assert 0 <= document["elapsed_seconds"] < 120, "durations come from clocks that do not jump"
    assert training.report()["run"]["elapsed_seconds"] == document["elapsed_seconds"]
    assert (document["state"], document["ranks"]["finished"]) == ("finished", 1)
    tell(
        f"the {whose}'s wall clock jumps by {seconds:+} s",
        training="same",
        points="all, each once, in order",
        page=warned[0]["text"],
        report=f"{document['state']}; its duration is right",
    )


@pytest.mark.long
def test_a_rank_without_descriptors_trains_on_and_reports_later(watch: Watch, tell: Tell) -> None:
    """Its connection is cut while it cannot open another."""
    training = watch()
    training.wait_for_step(30)
    limit = NoDescriptors(training.process.pid)
    training.link.cut()
    wait_for(lambda: training.get("api/v1/ranks")[0]["age_seconds"] > 1.5, 20, "silence on the page")
    training.link.heal()
    at = training.step()
    wait_for(lambda: training.step() > at + 100, 60, "all that was kept, by the one descriptor that the cut gave back")
    limit.release()
    training.end()
    training.settle()
    training.assert_complete()
    tell(
        "a rank has no file descriptors left, and loses its connection",
        training="same",
        points="all, each once",
        page="the rank's age grows; then all is there",
        report=training.report()["run"]["state"],
    )


@pytest.mark.parametrize("spare", [0, pytest.param(3, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.long)])
def test_a_rank_that_begins_with_no_or_few_descriptors_trains_on(watch: Watch, tell: Tell, spare: int) -> None:
    """They are taken as soon as there is a `Monitor`, and given back while it trains. libzmq would end the process, were it asked."""
    training = watch(hogs=2.0, spare=spare)
    training.wait_for_step(300)
    training.end()
    training.settle()
    training.assert_complete()
    tell(
        f"a rank begins with {spare or 'no'} file descriptors to spare",
        training="same",
        points="all, each once",
        page="the rank appears when it has some",
        report=training.report()["run"]["state"],
    )


@pytest.mark.long
def test_a_controller_without_descriptors_goes_on_with_those_it_has(watch: Watch, tell: Tell) -> None:
    training = watch()
    training.wait_for_step(30)
    limit = NoDescriptors(training.controller.process.pid)
    training.link.reset()  # the rank comes back
    address = ("127.0.0.1", int(training.url.rsplit(":", 1)[1].strip("/\n")))
    idle = [socket.create_connection(address) for _ in range(6)]  # visitors take what there is
    with pytest.raises(OSError, match=r"timed out|reset|refused"):
        training.get("healthz")
    limit.release()
    for visitor in idle:
        visitor.close()
    at = wait_for(training.step, 60, "the page")
    wait_for(lambda: training.step() > at + 100, 60, "news on the page")
    training.end()
    training.settle()
    training.assert_complete()
    assert training.document()["state"] == "finished"
    tell(
        "the controller has no file descriptors left",
        training="same",
        points="all, each once",
        page="no new visitor until there are some; then all is there",
        report=training.report()["run"]["state"],
    )


@pytest.mark.long
@pytest.mark.skipif(not CpuLimit.is_possible(), reason="limiting the processor needs a writable control group")
@pytest.mark.parametrize("whose", ["rank", "controller"])
def test_a_starved_processor_delays_and_loses_nothing(watch: Watch, tell: Tell, whose: str) -> None:
    training = watch()
    training.wait_for_step(30)
    with CpuLimit(0.03) as limit:
        limit.take(training.process.pid if whose == "rank" else training.controller.process.pid)
        at = training.step()
        wait_for(lambda: training.step() > at + 60, 120, "steps all the same")
    training.end()
    training.settle(120)
    training.assert_complete()
    tell(
        f"the {whose} gets 3 % of a core",
        training="same" if whose == "controller" else "same, as slow as it is without us",
        points="all, each once",
        page="late; then all is there",
        report=training.report()["run"]["state"],
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
    wait_for(lambda: training.get("api/v1/run")["not_persisted_since"], 60, "the page says that nothing is persisted")
    said = " ".join(warning["text"] for warning in training.get("api/v1/run")["warnings"])
    assert os.strerror(number) in said
    at = training.step()
    wait_for(lambda: training.step() > at + 30, 30, "news on the page")
    disk.heal()
    wait_for(
        lambda: training.get("api/v1/run")["not_persisted_since"] is None, 60, "the page says that it persists again"
    )
    training.end()
    training.settle()
    training.assert_complete()
    assert training.report()["run"]["state"] == "finished"
    tell(
        fault,
        training="same",
        points="all, each once, when it takes again",
        page=re.sub(r"\d\d:\d\d:\d\d|\d+ s", "…", said),
        report="finished",
    )
