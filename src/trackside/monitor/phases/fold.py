"""Marks to steps: how long each phase of each step took."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trackside.monitor.phases import track
from trackside.monitor.phases.cores import CoreReading, waited_ns
from trackside.monitor.phases.names import BLURRED, BUILT_IN, COLLECTIVE, REST
from trackside.monitor.pulse import OwnWork, Pulse


class Closing(NamedTuple):
    """What is known of a step besides its times when it ends; the training thread writes it as a bare tuple."""

    step: int
    samples: int | None = None
    has_peers: bool = False
    """Whether other ranks may have been waited for."""
    knows_own: bool = True
    """Whether every wait for them was seen."""


class StepCost(NamedTuple):
    """One step; the seconds of its phases sum to `wall`."""

    step: int
    ended_at: float
    """UTC epoch seconds."""
    wall: float
    own: float | None
    """Without waiting for peers; None when that cannot be told."""
    seconds: dict[str, float]
    known: tuple[str, ...]
    """Phases that can be told apart by now; one without seconds took none."""
    samples: int | None = None
    core_wait: float | None = None
    """Of `own`, the part in which the training thread could have gone on and had no core; None: unknown."""


@dataclass(slots=True)
class _Frame:
    """A step that may be open, and the phases that are, innermost last."""

    is_open: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    kept: tuple[dict[str, float], float] | None = None
    core_wait: float = 0.0
    is_looked_at: bool = False
    """Whether what it waits for a core is known."""
    stack: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Phase, what time counted for before it, and the user's phase it was in."""
    counts_for: str = REST
    users: str | None = None


class Fold:
    """Adds up the time between marks.

    Time counts for the innermost phase. Inside a phase of the user's own it counts for that one, waiting for peers
    excepted. Time outside of any step is nobody's.

    Args:
        pulse: Takes the totals.

    Threads: the send thread only.
    """

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._frames = [_Frame()]
        self._at = 0.0
        self._known: set[str] = set()
        self._known_own: tuple[str, ...] = ()
        """The same in order, as a step whose own time is known has them; and one whose is not."""
        self._known_blurred: tuple[str, ...] = ()
        self._waited_ns: int | None = None
        """For a core, since the training thread began."""
        self._looks = False
        """Whether the next step is looked at."""

    def take(self, marks: Iterable[track.Mark], wall_clock: float) -> list[StepCost]:
        """Return the steps that ended among `marks`.

        Args:
            marks: In order.
            wall_clock: UTC epoch seconds at the monotonic clock's zero.
        """
        steps: list[StepCost] = []
        frame, last = self._frames[-1], self._at
        for code, at, about in marks:
            if at > last:
                if frame.is_open:
                    spent, counts_for = frame.spent, frame.counts_for
                    spent[counts_for] = spent.get(counts_for, 0.0) + at - last
                last = at
            if code == track.ENTER:
                _enter(frame, about)
            elif code == track.LEAVE:
                _leave(frame, about)
            elif code == track.CLOSE:
                if frame.is_open:
                    steps.append(self._close(frame, about, wall_clock + at))
            elif code == track.OPEN:
                self._open(frame, about)
            elif code == track.CORES:
                self._take_core_wait(frame, about)
            else:
                self._turn(frame, code, about)
                frame = self._frames[-1]
        self._at = last
        return steps

    def _open(self, frame: _Frame, phase: str | None) -> None:
        if not frame.is_open:
            frame.is_open, frame.kept, frame.spent = True, None, {}
            frame.is_looked_at, frame.core_wait = self._looks, 0.0
            if frame.stack:
                _begin_anew(frame)
        if phase is not None:
            _enter(frame, phase)

    def _turn(self, frame: _Frame, code: int, about: Any) -> None:
        """The rarer marks."""
        if code == track.DROP:
            frame.is_open, frame.kept, frame.spent = False, None, {}
        elif code == track.KEEP:
            frame.kept = (dict(frame.spent), frame.core_wait)
        elif code == track.UNDO:
            if frame.kept is not None:
                frame.spent, frame.core_wait = dict(frame.kept[0]), frame.kept[1]
        elif code == track.PUSH:
            self._frames.append(_Frame())
        elif code == track.POP:
            if len(self._frames) > 1:
                self._frames.pop()
        elif code == track.TORN:
            self._frames = [_Frame() for _ in self._frames]
            self._waited_ns, self._looks = None, False
        elif isinstance(about, OwnWork):
            self._pulse.measure(about, is_end=code == track.SPAN_ENDS)

    def _take_core_wait(self, frame: _Frame, reading: CoreReading) -> None:
        """Add what the thread has waited for a core since it was last read, unless it waited for peers anyway."""
        before, self._waited_ns = self._waited_ns, waited_ns(reading[0])
        if reading[1] is not None:
            self._looks = reading[1]
        if before is None or self._waited_ns is None or self._waited_ns < before:  # another thread trains now
            return
        if frame.is_open and frame.counts_for != COLLECTIVE:
            frame.core_wait += (self._waited_ns - before) / 1e9

    def _close(self, frame: _Frame, closing: Closing, ended_at: float) -> StepCost:
        number, samples, has_peers, knows_own = closing
        seconds, frame.spent, frame.kept, frame.is_open = frame.spent, {}, None, False
        wall = sum(seconds.values())
        own: float | None = wall - seconds.get(COLLECTIVE, 0.0)
        if not knows_own:
            own = None
            seconds[BLURRED] = seconds.pop(REST, 0.0)
        self._know(seconds, has_peers=has_peers and knows_own)
        core_wait = min(frame.core_wait, wall) if frame.is_looked_at and self._waited_ns is not None else None
        self._pulse.add_step(wall, own)
        known = self._known_own if knows_own else self._known_blurred
        return StepCost(number, ended_at, wall, own, seconds, known, samples, core_wait)

    def _know(self, seconds: dict[str, float], *, has_peers: bool) -> None:
        """These phases can be told apart by now; waiting for peers too, where there are some and each wait is seen."""
        known = self._known
        if known.issuperset(seconds) and (not has_peers or COLLECTIVE in known):
            return
        if has_peers:
            seconds = {COLLECTIVE: 0.0, **seconds}
        new = tuple(name for name in seconds if name not in known)
        known.update(new)
        order = dict.fromkeys((*self._known_own, *self._known_blurred, *new))
        self._known_own = tuple(name for name in order if name != BLURRED)
        self._known_blurred = tuple(name for name in order if name != REST)


def _begin_anew(frame: _Frame) -> None:
    """In a new step, no phase of torch's is under way, whatever the marks say; the user's own may be."""
    own = [phase for phase, _, _ in frame.stack if phase not in BUILT_IN]
    frame.stack, frame.counts_for, frame.users = [], REST, None
    for phase in own:
        _enter(frame, phase)


def _enter(frame: _Frame, phase: str) -> None:
    users = frame.users
    frame.stack.append((phase, frame.counts_for, users))
    if phase not in BUILT_IN:
        frame.users = frame.counts_for = phase
    elif users is None or phase == COLLECTIVE:
        frame.counts_for = phase
    if frame.is_open and frame.counts_for not in frame.spent:
        frame.spent[frame.counts_for] = (
            0.0  # it takes no time, hidden behind a device's work, and is known all the same
        )


def _leave(frame: _Frame, phase: str) -> None:
    """End the phase and what is inside; one that never began, as after marks were dropped, is nothing."""
    stack = frame.stack
    for index in range(len(stack) - 1, -1, -1):
        if stack[index][0] == phase:
            _, frame.counts_for, frame.users = stack[index]
            del stack[index:]
            return
