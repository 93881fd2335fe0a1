"""Ranks that have all failed, under an agent that may start them again."""

import pytest

from tests.unit.run.play import Play
from trackside.run import inputs


@pytest.fixture
def play() -> Play:
    """Both ranks have been killed."""
    play = Play()
    sessions = [play.hello(rank) for rank in (0, 1)]
    for session in sessions:
        play.do(inputs.ProcessGone(session, signal="SIGKILL"))
    return play


def look(play: Play, seconds: float, *, may_restart: bool) -> str:
    play.at += seconds
    play.do(inputs.Ticked(may_restart=may_restart))
    return play.run.state


def test_d44_the_run_waits_for_the_agent_and_goes_on_with_the_next_generation(play: Play) -> None:
    assert look(play, 1, may_restart=True) == "running"
    assert look(play, 60, may_restart=True) == "running"
    play.hello(0, generation=1)
    assert (look(play, 1, may_restart=True), play.run.generation, play.states()) == ("running", 1, ["alive"])


def test_without_the_agent_it_is_over_at_once(play: Play) -> None:
    assert look(play, 1, may_restart=True) == "running"
    assert look(play, 1, may_restart=False) == "failed"


def test_an_agent_that_starts_nothing_is_not_waited_for_for_ever(play: Play) -> None:
    assert look(play, 1, may_restart=True) == "running"
    assert look(play, 121, may_restart=True) == "failed"
