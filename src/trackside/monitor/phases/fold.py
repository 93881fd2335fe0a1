"""Marks to steps: how long each phase of each step took."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trackside.monitor.phases import track
from trackside.monitor.phases.cores import CoreReading, waited_ns
from trackside.monitor.phases.names import BLURRED, BUILT_IN, COLLECTIVE, REST
from trackside.monitor.pulse import OwnWork, Pulse


@dataclass(frozen=True, slots=True)
class Closing:
    """What is known of a step besides its times when it ends."""

    step: int
    samples: int | None = None
    has_peers: bool = False
    """Whether other ranks may have been waited for."""
    knows_own: bool = True
    """Whether every wait for them was seen."""


@dataclass(frozen=True, slots=True)
class StepCost:
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
        self._known: dict[str, None] = {}
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
        for code, at, about in marks:
            frame = self._frames[-1]
            if frame.is_open and at > self._at:
                frame.spent[frame.counts_for] = frame.spent.get(frame.counts_for, 0.0) + at - self._at
            self._at = max(at, self._at)
            if code == track.ENTER:
                _enter(frame, about)
                if frame.is_open:  # a phase that takes no time, hidden behind a device's work, is known all the same
                    frame.spent.setdefault(frame.counts_for, 0.0)
            elif code == track.LEAVE:
                _leave(frame, about)
            elif code == track.CORES:
                self._take_core_wait(frame, about)
            elif code == track.CLOSE:
                if frame.is_open:
                    steps.append(self._close(frame, about, wall_clock + at))
            else:
                self._turn(frame, code, about)
        return steps

    def _turn(self, frame: _Frame, code: int, about: Any) -> None:
        """The rarer marks."""
        if code == track.OPEN:
            if not frame.is_open:
                frame.is_open, frame.kept, frame.spent = True, None, {}
                frame.is_looked_at, frame.core_wait = self._looks, 0.0
                _begin_anew(frame)
        elif code == track.DROP:
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
        seconds, frame.spent, frame.kept, frame.is_open = frame.spent, {}, None, False
        wall = sum(seconds.values())
        own: float | None = wall - seconds.get(COLLECTIVE, 0.0)
        if not closing.knows_own:
            own = None
            seconds[BLURRED] = seconds.pop(REST, 0.0)
        elif closing.has_peers:
            self._known[COLLECTIVE] = None
        for name in seconds:
            self._known[name] = None
        known = tuple(name for name in self._known if name != (REST if own is None else BLURRED))
        samples = closing.samples
        step = StepCost(
            step=closing.step,
            ended_at=ended_at,
            wall=wall,
            own=own,
            seconds=seconds,
            known=known,
            samples=samples,
            core_wait=min(frame.core_wait, wall) if frame.is_looked_at and self._waited_ns is not None else None,
        )
        self._pulse.add_step(wall, own, seconds)
        return step


def _begin_anew(frame: _Frame) -> None:
    """In a new step, no phase of torch's is under way, whatever the marks say; the user's own may be."""
    own = [phase for phase, _, _ in frame.stack if phase not in BUILT_IN]
    frame.stack, frame.counts_for, frame.users = [], REST, None
    for phase in own:
        _enter(frame, phase)


def _enter(frame: _Frame, phase: str) -> None:
    frame.stack.append((phase, frame.counts_for, frame.users))
    if phase not in BUILT_IN:
        frame.users = frame.counts_for = phase
    elif phase == COLLECTIVE or frame.users is None:
        frame.counts_for = phase


def _leave(frame: _Frame, phase: str) -> None:
    """End the phase and what is inside; one that never began, as after marks were dropped, is nothing."""
    for index in range(len(frame.stack) - 1, -1, -1):
        if frame.stack[index][0] == phase:
            _, frame.counts_for, frame.users = frame.stack[index]
            del frame.stack[index:]
            return
