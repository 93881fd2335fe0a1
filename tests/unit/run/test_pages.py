"""Wishes for a live page."""

import pytest

from tests.unit.run.play import Play
from trackside.run import inputs, outputs
from trackside.run.machine import RunMachine
from trackside.wire import messages


def asked(play: Play) -> list[int | None]:
    return [wish.port for wish in play.asked(outputs.RegisterPort)]


def test_b19_nothing_is_bound_before_the_first_wish() -> None:
    play = Play()
    for rank in range(2):
        play.beat(play.hello(rank))
    play.agent()
    play.wait(1)
    assert asked(play) == []


def test_b19_a_wish_binds_and_a_failed_bind_lets_the_next_wish_try_again() -> None:
    play = Play()
    session = play.hello(0)
    play.tell(session, messages.PortWish(port=7117))
    play.do(inputs.PageBindFailed(7117, "held by python (pid 12)"))
    assert play.run.warnings[0].text == "no page on port 7117: held by python (pid 12)"
    play.tell(session, messages.PortWish(port=7117))
    play.do(inputs.PageBindFailed(7117, "held by python (pid 12)"))
    play.tell(session, messages.PortWish(port=7118))
    assert asked(play) == [7117, 7117, 7118]
    play.do(inputs.PageBound("a", 7118, "the line"))
    assert (play.run.warnings, play.events("port")) == ([], [])


def test_b19_a_wish_that_came_before_the_first_one_failed_is_tried_too() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.PortWish(port=7117))
    play.tell(one, messages.PortWish(port=7118))
    play.tell(one, messages.PortWish(port=7118))
    play.tell(one, messages.PortWish(port=7119))
    assert (asked(play), play.events("port")) == ([7117], [])
    play.do(inputs.PageBindFailed(7117, "held"))
    assert asked(play) == [7117, 7118]
    play.do(inputs.PageBound("a", 7118, "the line"))
    assert [event.text for event in play.events("port")] == [
        "rank 1 asked for port 7119; the page is bound to port 7118 and stays there"
    ]


def test_b19_the_way_it_was_started_counts_as_one_wish_and_a_failed_bind_is_not_tried_for_ever() -> None:
    play = Play(wants_page=True, port=7117)
    play.wait(0.1)
    play.do(inputs.PageBindFailed(7117, "held"))
    for _ in range(5):
        play.wait(0.1)
    assert asked(play) == [7117]
    play.tell(play.hello(0, world=1), messages.PortWish(port=7118))
    assert asked(play) == [7117, 7118]


def test_b19_where_no_page_was_wanted_none_is_asked_for_and_none_is_spoken_of() -> None:
    play = Play(no_page=True)
    session = play.hello(0, world=1)
    play.tell(session, messages.PortWish(port=7117))
    play.tell(session, messages.PortWish(port=9000))
    assert (asked(play), play.events()) == ([], [])


def test_b20_nothing_is_kept_of_a_wish_for_the_same_port() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.PortWish(port=7117))
    play.tell(one, messages.PortWish(port=7117))
    play.do(inputs.PageBindFailed(7117, "held"))
    assert asked(play) == [7117], "it would only fail again"


@pytest.mark.parametrize("again", [7117, None, 0])
def test_b20_the_same_port_or_any_port_again_is_ignored(again: int | None) -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.PortWish(port=7117))
    play.do(inputs.PageBound("a", 7117, "the line"))
    for session in (zero, one, play.agent()):
        play.tell(session, messages.PortWish(port=again))
    assert (asked(play), play.events()) == ([7117], [])


def test_b20_another_port_is_one_warning_that_names_rank_wanted_and_bound_port() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.PortWish(port=None))
    play.do(inputs.PageBound("a", 7118, "the line"))
    for _ in range(3):
        play.at += 60
        play.tell(one, messages.PortWish(port=9000))
        play.tell(zero, messages.PortWish(port=9000))
    (event,) = play.events("port")
    assert (event.text, event.count, event.severity) == (
        "rank 1 asked for port 9000; the page is bound to port 7118 and stays there",
        1,
        "warn",
    )
    assert asked(play) == [None]
    assert [line.line for line in play.asked(outputs.PrintLine)] == [f"  warn     port: {event.text}"]


def test_b20_it_is_the_launcher_that_is_named_when_it_was_the_launcher() -> None:
    play = Play()
    agent = play.agent()
    play.tell(play.hello(0), messages.PortWish(port=7117))
    play.do(inputs.PageBound("a", 7117, "the line"))
    play.tell(agent, messages.PortWish(port=7200))
    assert play.events("port")[0].text.startswith("the launcher asked for port 7200")


def test_b19_a_restarted_controller_takes_its_page_again_and_still_answers_who_wished_another() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.PortWish(port=None))
    play.do(inputs.PageBound("a", 7118, "the line"))
    play.machine = RunMachine.restore(play.machine.snapshot())
    play.do(inputs.Replayed(downtime_seconds=1.0))
    assert asked(play) == [None, 7118]
    play.tell(one, messages.PortWish(port=9000))
    play.do(inputs.PageBound("a", 7118, "the line"))
    assert len(play.events("port")) == 1
