"""What a bad network does to a training: nothing. Every point arrives once, and the page says what it knows."""

from collections.abc import Callable

import pytest

from tests.faults.job import WatchedTraining
from tests.faults.link import BadLink
from tests.faults.outcomes import Tell, show
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
    before = training.link.relayed_bytes
    PASSING[fault](training.link)
    if fault in ("cut", "blackhole"):
        age = wait_for(
            lambda: max(0.0, training.get("api/v1/ranks")[0]["age_seconds"] - 1.5), 20, "silence on the page"
        )
        meanwhile = show("the rank's age grows", age > 0, True)
    else:
        wait_for(lambda: training.link.relayed_bytes > before, 30, "the piece that it is about")
        meanwhile = show("news all the same", training.moves_on(), True)
    training.link.heal()
    afterwards = show("then it is up to date", training.moves_on(), True)
    training.end()
    training.settle()
    document = training.document()
    assert (document["ranks"]["finished"], document["step"]) == (1, training.steps - 1)
    tell(
        f"the network: {WORDS[fault]}",
        training=training.same(),
        points=training.complete(),
        page=(meanwhile, afterwards, training.page_ended()),
        report=training.reported(),
    )


@pytest.mark.long
def test_tensors_and_a_real_network_through_a_bad_link(watch: Callable[..., WatchedTraining], tell: Tell) -> None:
    training = watch(steps=600)
    training.wait_for_step(20)
    training.link.reset()
    goes_on = show("goes on", training.moves_on(), True)
    training.end()
    training.settle()
    tell(
        "the network: a reset while a network of PyTorch trains, and logs tensors",
        training=training.same("weights equal to the last bit"),
        points=training.complete(),
        page=(goes_on, training.page_ended()),
        report=training.reported(),
    )
