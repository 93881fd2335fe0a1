"""Calls that may never come back, from a thread that must go on."""

import threading
import time
from collections.abc import Iterator

import pytest

from trackside.monitor.samplers.patience import Patience


@pytest.fixture
def driver() -> Iterator[Patience]:
    made = Patience(limit_s=0.1)
    yield made
    made.close()


def test_an_answer_comes_from_another_thread_and_what_is_raised_is_raised(driver: Patience) -> None:
    assert driver.ask(threading.get_ident) != threading.get_ident()
    assert driver.ask(threading.get_ident) == driver.ask(threading.get_ident)
    with pytest.raises(ZeroDivisionError):
        driver.ask(lambda: 1 / 0)
    assert (driver.ask(lambda: 7), driver.is_silent) == (7, False)


def test_b16_a_call_that_hangs_is_waited_for_once_and_all_is_well_when_it_is_back(driver: Patience) -> None:
    well, asked = threading.Event(), []
    assert driver.ask(lambda: well.wait(30)) is None
    assert driver.is_silent
    began = time.monotonic()
    for _ in range(1000):
        assert driver.ask(lambda: asked.append(1)) is None
    assert time.monotonic() - began < 5, "0.1 s each would be 100 s"
    assert asked == [], "nothing piles up behind it"
    well.set()
    deadline = time.monotonic() + 10
    while driver.is_silent and time.monotonic() < deadline:
        time.sleep(0.005)
    assert driver.ask(lambda: "back") == "back"


def test_closing_ends_the_thread_and_a_hung_one_is_not_waited_for() -> None:
    def threads() -> int:
        return sum(thread.name == "trackside-driver" for thread in threading.enumerate())

    before, well = threads(), threading.Event()
    driver = Patience(limit_s=0.05)
    driver.close()
    driver.ask(lambda: well.wait(30))
    driver.close()
    driver.close()
    assert driver.ask(lambda: "another") == "another"
    driver.close()
    well.set()
    deadline = time.monotonic() + 10
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.005)
    assert threads() <= before  # one of another test may end meanwhile
