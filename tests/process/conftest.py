"""A controller in a process of its own, and sessions on the real wire."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from tests.process.wire_client import ControllerUnderTest, WireRank, pump_until, said
from trackside.wire import messages


@pytest.fixture(autouse=True)
def nothing_is_left(leak_check: None) -> None:
    """Of every test here."""


@pytest.fixture
def wire(tmp_path: Path) -> Iterator["Wire"]:
    """Starts controllers and sessions, and ends them."""
    made = Wire(tmp_path)
    yield made
    made.close()


class Wire:
    """Whatever a test has started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._context = zmq.Context()
        self._ranks: list[WireRank] = []
        self._controllers: list[ControllerUnderTest] = []

    def controller(self, *options: str, **env: str) -> ControllerUnderTest:
        """Start one."""
        self._controllers.append(ControllerUnderTest(self.directory, *options, **env))
        return self._controllers[-1]

    def rank(self, controller: ControllerUnderTest, rank: int = 0, world_size: int = 1, **options: object) -> WireRank:
        """A session that is welcome."""
        made = WireRank(self._context, controller.address, rank, world_size, **options)  # type: ignore[arg-type]
        self._ranks.append(made)
        made.hello()
        pump_until([made], lambda: made.welcome, what="a welcome")
        return made

    def page(self, rank: WireRank) -> str:
        """Wish for a page and return its URL."""
        rank.send(messages.PortWish(port=0))
        lines: Callable[[], list[str]] = lambda: [m.line for m in said(rank, messages.Say) if "://" in m.line]  # noqa: E731
        return str(pump_until([rank], lines, what="a URL line")[-1].split()[1]) + "/"

    def close(self) -> None:
        """Idempotent."""
        for rank in self._ranks:
            rank.close()
        self._context.destroy(linger=0)
        for controller in self._controllers:
            controller.close()
