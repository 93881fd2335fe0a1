"""A training under watch, ended with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.job import WatchedTraining


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., WatchedTraining]]:
    made: list[WatchedTraining] = []

    def begin(**options: object) -> WatchedTraining:
        made.append(WatchedTraining(tmp_path, **options))
        return made[-1]

    yield begin
    for training in made:
        training.close()
