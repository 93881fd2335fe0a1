"""A real run to attack: its controller, two ranks that are heard all the time, and its page."""

from collections.abc import Iterator

import pytest

from tests.browser.fleet import Fleet
from tests.security.hostile import fill


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two ranks on two hosts with a page and something of everything; for a whole module, since nothing can change it."""
    started = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        fill(started)
        yield started
    finally:
        started.close()
