"""Marks to steps: every second counts for one phase, or for no step."""

import pytest

from trackside.monitor.phases import track
from trackside.monitor.phases.fold import Closing, Fold, StepCost
from trackside.monitor.phases.track import Track
from trackside.monitor.pulse import OwnWork, Pulse

CLOSING = Closing(step=7, samples=4)
SPELLED = {
    "open": track.OPEN, "drop": track.DROP, "keep": track.KEEP, "undo": track.UNDO, "push": track.PUSH, "pop": track.POP,
    "torn": track.TORN,
}  # fmt: skip


def marks(text: str, closing: Closing = CLOSING, start: float = 0.0) -> list[track.Mark]:
    """A second passes between two words: `+data` begins a phase, `-data` ends it, `.` closes a step."""
    made: list[track.Mark] = []
    for at, word in enumerate(text.split(), int(start)):
        if word == ".":
            made.append((track.CLOSE, float(at), closing))
        elif word[0] in "+-":
            made.append((track.ENTER if word[0] == "+" else track.LEAVE, float(at), word[1:]))
        else:
            made.append((SPELLED[word], float(at), None))
    return made


def fold(text: str, closing: Closing = CLOSING) -> list[StepCost]:
    return Fold(Pulse()).take(marks(text, closing), 1000.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("open +data -data +forward -forward .", {"data": 1, "rest": 3, "forward": 1}),
        ("+data -data open +forward -forward .", {"rest": 2, "forward": 1}),
        ("open +forward +collective -collective -forward .", {"rest": 2, "forward": 2, "collective": 1}),
        ("open +backward +collective -backward .", {"rest": 2, "backward": 1, "collective": 1}),
        ("open +mine +forward +collective -collective -forward -mine .", {"rest": 2, "mine": 4, "collective": 1}),
        ("open +forward +mine +backward -mine -forward .", {"rest": 2, "forward": 2, "mine": 2}),
        ("open +a +b -b -a .", {"rest": 2, "a": 2, "b": 1}),
        ("open -forward +data -data .", {"rest": 3, "data": 1}),
        ("open keep +data +forward undo -data .", {"rest": 2, "forward": 1}),
        ("open push open +data -data . pop .", {"rest": 2}),
    ],
)  # fmt: skip
def test_every_second_counts_for_one_phase(text: str, seconds: dict[str, float]) -> None:
    *inner, step = fold(text)
    assert step.seconds == seconds
    assert step.wall == sum(seconds.values())
    assert (step.step, step.samples, step.ended_at) == (7, 4, 1000.0 + len(text.split()) - 1)
    assert [inside.seconds for inside in inner] == ([{"rest": 2, "data": 1}] if "push" in text else [])


@pytest.mark.parametrize("text", [".", "open drop .", "open +data drop -data .", "open torn ."])
def test_what_is_no_step_is_none(text: str) -> None:
    assert fold(text) == []


def test_marks_after_a_gap_begin_anew() -> None:
    """Marks were dropped: the step among them is gone, the next one is whole."""
    (step,) = fold("open +forward torn open -backward +data -data .")
    assert step.seconds == {"rest": 3, "data": 1}


def test_own_time_is_all_but_waiting_for_peers() -> None:
    text = "open +collective -collective ."
    (alone,) = fold(text, Closing(step=0))
    (seen,) = fold(text, Closing(step=0, has_peers=True))
    (blind,) = fold(text, Closing(step=0, has_peers=True, knows_own=False))
    assert [step.own for step in (alone, seen, blind)] == [2, 2, None]
    assert blind.seconds == {"collective": 1, "step": 2}


def test_waiting_for_a_core_is_known_apart_unless_peers_are_waited_for() -> None:
    """Some steps are not looked at: what those waited is not known, and no other step's."""
    waited = iter((5, 7, 10, 20, 24, 30, 31, 32, 44, 45))
    text = (
        "turn open +forward cores -forward cores +collective cores -collective turn . "
        "open keep cores undo turn . open stop . open . turn open turn ."
    )
    looks = {"cores": None, "turn": True, "stop": False}
    made: list[track.Mark] = []
    for at, word in enumerate(text.split()):
        if word in looks:
            made.append((track.CORES, float(at), (b"77 %d000000000 3\n" % next(waited), looks[word])))
        else:
            made += marks(word, start=float(at))
    assert [step.core_wait for step in Fold(Pulse()).take(made, 0.0)] == [2 + 3 + 4, 1, 1, None, 1]


def test_phases_are_known_from_when_they_were_first_seen() -> None:
    folding, peers = Fold(Pulse()), Closing(step=0, has_peers=True)
    (first,) = folding.take(marks("open +data -data .", peers), 0.0)
    (second,) = folding.take(marks("open +forward -forward .", peers, 10), 0.0)
    assert set(first.known) == {"data", "rest", "collective"}, "peers are waited for, just not in this step"
    assert set(second.known) == {"data", "rest", "collective", "forward"}


def test_marks_come_in_any_portions() -> None:
    text = "open +data -data +forward +collective -collective -forward ."
    (whole,) = fold(text)
    folding = Fold(Pulse())
    parts = [step for mark in marks(text) for step in folding.take([mark], 1000.0)]
    assert parts == [whole]


def test_own_work_between_two_marks_is_of_the_steps_between() -> None:
    pulse, work = Pulse(), OwnWork()
    closing = Closing(step=0, has_peers=True)
    around: list[track.Mark] = [
        *marks("open .", closing),
        (track.SPAN_BEGINS, 1.0, work),
        *[(code, at + 1, about) for code, at, about in marks("open +collective -collective .", closing)],
        (track.SPAN_ENDS, 5.0, work),
    ]
    Fold(pulse).take(around, 0.0)
    assert (work.seconds, pulse.work_seconds) == (2.0, 3.0)


def test_marks_beyond_the_bound_are_dropped_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track, "MAX_MARKS", track._MARGIN + 3)
    full = Track()
    for _ in range(2):
        full.put(track.OPEN)
    assert [code for code, _, _ in full.take()] == [track.OPEN] * 2
    for _ in range(2 * track.MAX_MARKS):
        full.put(track.OPEN)
    assert len(full.marks) == track.MAX_MARKS
    assert [code for code, _, _ in full.take()] == [track.TORN]
    full.put(track.OPEN)
    assert [code for code, _, _ in full.take()] == [track.OPEN]
    full.stop()
    full.put(track.OPEN)
    assert full.take() == []
