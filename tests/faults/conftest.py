"""A training under watch, ended with the test; and what came of its fault, kept where that is asked for."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.job import WatchedTraining
from tests.faults.outcomes import VARIABLE, Outcome, Tell, keep

PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture(autouse=True)
def nothing_is_left(leak_check: None) -> None:
    """Of every test here."""


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Iterator[Tell]:
    """Takes what came of the fault; a test that passes must have told."""
    outcome = Outcome()
    yield outcome.tell
    if not request.node.stash.get(PASSED, False):
        return
    if outcome.row is None:
        pytest.fail("a fault's test tells what came of it", pytrace=False)
    if os.environ.get(VARIABLE):
        keep(Path(os.environ[VARIABLE]), request.node.nodeid, outcome.row)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., WatchedTraining]]:
    made: list[WatchedTraining] = []

    def begin(**options: object) -> WatchedTraining:
        made.append(WatchedTraining(tmp_path, **options))
        return made[-1]

    yield begin
    for training in made:
        training.close()
