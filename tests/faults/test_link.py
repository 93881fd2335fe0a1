"""What a bad network does to a training: nothing. Every point arrives once, and the page says what it knows."""

from collections.abc import Callable

import pytest

from tests.faults.job import WatchedTraining
from tests.faults.link import BadLink
from tests.process.job import wait_for

pytestmark = pytest.mark.usefixtures("leak_check")


PASSING: dict[str, Callable[[BadLink], None]] = {
    "cut": BadLink.cut,
    "reset": BadLink.reset,
    "blackhole": BadLink.blackhole,
    "delay": lambda link: link.delay(0.7),
    "narrow": lambda link: link.narrow(20_000),
    "truncate": BadLink.truncate,
    "duplicate": BadLink.duplicate,
    "corrupt": BadLink.corrupt,
    "reorder": BadLink.reorder,
}


QUICK = ("blackhole", "corrupt")


@pytest.mark.parametrize("fault", [pytest.param(f, marks=() if f in QUICK else pytest.mark.long) for f in PASSING])
def test_a_fault_that_passes_costs_no_point(watch: Callable[..., WatchedTraining], fault: str) -> None:
    training = watch()
    training.wait_for_step(20)
    before = training.link.relayed_bytes
    PASSING[fault](training.link)
    if fault not in ("cut", "blackhole"):
        wait_for(lambda: training.link.relayed_bytes > before, 20, "bytes under the fault")
    reached = training.step()
    wait_for(lambda: training.process.poll() is not None or training.step() > reached + 30 or fault in
             ("cut", "blackhole"), 30, "the training goes on")  # fmt: skip
    training.link.heal()
    training.end()
    training.settle()
    training.assert_complete()
    document = training.document()
    assert (document["state"], document["ranks"]["finished"], document["step"]) == ("finished", 1, 299)
    report = training.report()
    assert (report["run"]["state"], report["metrics"][0]["points"]) == ("finished", 300)
