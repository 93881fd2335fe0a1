"""What a bad network does to a training: nothing. Every point arrives once, and the page says what it knows."""

from collections.abc import Callable

import pytest

from tests.faults.job import WatchedTraining
from tests.faults.link import BadLink
from tests.faults.outcomes import Tell
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


WORDS = {
    "cut": "connections closed, new ones refused",
    "reset": "connections reset",
    "blackhole": "nothing gets through, nothing is said",
    "delay": "0.7 s later in each direction",
    "narrow": "20 kB a second",
    "truncate": "half of a piece, then the end of the connection",
    "duplicate": "a piece comes twice",
    "corrupt": "bits turned over",
    "reorder": "pieces the wrong way round",
}
QUICK = ("blackhole", "corrupt")


@pytest.mark.parametrize("fault", [pytest.param(f, marks=() if f in QUICK else pytest.mark.long) for f in PASSING])
def test_a_fault_that_passes_costs_no_point(watch: Callable[..., WatchedTraining], tell: Tell, fault: str) -> None:
    training = watch()
    training.wait_for_step(20)
    before, reached = training.link.relayed_bytes, training.step()
    PASSING[fault](training.link)
    if fault in ("cut", "blackhole"):
        wait_for(lambda: training.get("api/v1/ranks")[0]["age_seconds"] > 1.5, 20, "silence on the page")
    else:
        wait_for(lambda: training.link.relayed_bytes > before and training.step() > reached, 30, "news all the same")
    training.link.heal()
    healed = training.step()
    wait_for(lambda: training.step() > healed, 30, "news")
    training.end()
    training.settle()
    training.assert_complete()
    document, report = training.document(), training.report()
    assert (document["state"], document["ranks"]["finished"], document["step"]) == ("finished", 1, training.steps - 1)
    assert (report["run"]["state"], report["metrics"][0]["points"]) == ("finished", training.steps)
    tell(
        f"the network: {WORDS[fault]}",
        training="same",
        points="all, each once",
        page="the rank's age grows; then all is there"
        if fault in ("cut", "blackhole")
        else "late by as much; then all is there",
        report="finished, with all points",
    )


@pytest.mark.long
def test_tensors_and_a_real_network_through_a_bad_link(watch: Callable[..., WatchedTraining], tell: Tell) -> None:
    training = watch(steps=300)
    training.wait_for_step(20)
    training.link.reset()
    training.end()
    training.settle()
    training.assert_complete()
    tell(
        "the network: a reset while a network of PyTorch trains, and logs tensors",
        training="weights equal to the last bit",
        points="all, each once",
        page="goes on",
        report=training.report()["run"]["state"],
    )
