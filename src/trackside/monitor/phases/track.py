"""The track: marks of what began and ended when, appended by the training thread and taken by the send thread."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from trackside.monitor.phases.cores import LOOK_S, CoreWait
from trackside.monitor.phases.names import BETWEEN

MAX_MARKS = 200_000
"""Marks that may wait, seconds of the tightest loop; beyond, they are dropped, and the steps among them with them."""
_MARGIN = 1_000

(
    ENTER,  # a phase begins; its name
    LEAVE,  # the phase of this name ends, and whatever began inside
    OPEN,  # a step begins, unless one is open, with this phase, if any
    CLOSE,  # the step that is open ends; a `Closing`
    DROP,  # what is open was no step
    KEEP,  # remember how the open step stands
    UNDO,  # what came since is no part of the step
    PUSH,  # a loop inside the step: what is open rests
    POP,  # the loop is over, what rested goes on
    SPAN_BEGINS,  # an `OwnWork` begins here
    SPAN_ENDS,
    TORN,  # marks were dropped before this one
    CORES,  # how long this thread has waited for a core by now; a `CoreReading`
) = range(13)

Mark = tuple[int, float, Any]
"""What, when by the monotonic clock, and what belongs to it."""


class MarkClock(Protocol):
    """Gives marks another time than the host's."""

    def hold(self, mark: Mark) -> None:
        """Keep a mark until its time is known."""
        ...

    def passed(self) -> list[Mark]:
        """Those whose time is known by now, in order."""
        ...


class Track:
    """The bounded queue of marks.

    Appending is one atomic step: no lock, so neither a signal handler nor an autograd thread ever waits for another. It is
    also one call into C, since it is most of what a step pays for: `append` is that of the queue itself, which forgets the
    oldest marks when it is full, and is exchanged for another one where more is to be done.

    Threads: the training thread and autograd's append; the send thread takes.
    """

    __slots__ = ("_clock", "_is_on", "append", "cores", "doing", "marks")

    def __init__(self, *, is_on: bool = True) -> None:
        self.marks: deque[Mark] = deque(maxlen=MAX_MARKS)
        self.append: Callable[[Mark], object] = self.marks.append
        """Put a mark."""
        self.doing: str | None = None
        """The phase that the training thread is in, for heartbeats; None before the first."""
        self.cores = CoreWait()
        self._is_on = is_on
        self._clock: MarkClock | None = None
        self._choose()

    @property
    def is_on(self) -> bool:
        """Whether marks are taken at all."""
        return self._is_on

    def stop(self) -> None:
        """Take no more marks."""
        self._is_on = False
        self._choose()

    @property
    def clock(self) -> MarkClock | None:
        """Of a device, which gives marks their time later; None: the host's clock is right."""
        return self._clock

    @clock.setter
    def clock(self, clock: MarkClock | None) -> None:
        self._clock = clock
        self._choose()

    def _choose(self) -> None:
        if not self._is_on:
            self.append = _forget
        else:
            self.append = self.marks.append if self._clock is None else self._hold

    def put(self, code: int, about: Any = None) -> None:
        """Append a mark."""
        self.append((code, monotonic(), about))

    def put_span(self, code: int, about: Any) -> None:
        """The same for a span, which does not wait for a device: an epoch's report hangs on it."""
        if self._is_on:
            self.marks.append((code, monotonic(), about))

    def _hold(self, mark: Mark) -> None:
        clock = self._clock
        if clock is None:
            self.marks.append(mark)
            return
        try:
            clock.hold(mark)
            if mark[0] in (CLOSE, POP):
                self.marks.extend(clock.passed())
        except RuntimeError:  # the device has failed, which the user's own code is about to hear
            self.clock = None
            self.marks.append((TORN, monotonic(), None))

    def note_cores(self) -> None:
        """Say how long this thread has waited for a core, before waiting for peers begins or ends."""
        if self.cores.is_looking and self._clock is None and self._is_on:  # a device's time does not hold that
            text = self.cores.read()
            if text is not None:
                self.put(CORES, (text, None))

    def turn_cores(self, now: float) -> None:
        """The same where a step ends and another may begin, unless neither is looked at. `now` is monotonic."""
        if self._clock is not None or not self._is_on:
            self.cores.look_at = now + LOOK_S
            return
        turned = self.cores.turn(now)
        if turned is not None:
            self.put(CORES, turned)

    def settle(self) -> None:
        """Take what the device has passed by now. Threads: the training thread."""
        if self._clock is not None:
            self.marks.extend(self._clock.passed())

    def enter(self, phase: str) -> str | None:
        """A phase begins; return the one that it interrupts, for `leave`."""
        before, self.doing = self.doing, phase
        self.append((ENTER, monotonic(), phase))
        return before

    def leave(self, phase: str, before: str | None) -> None:
        """The phase ends."""
        self.append((LEAVE, monotonic(), phase))
        self.doing = before

    def rest(self, *, in_step: str | None = None) -> None:
        """Say what goes on when no phase does: a step's body, or nothing of a step."""
        self.doing = in_step or BETWEEN

    def take(self) -> list[Mark]:
        """Take everything that waits, oldest first. Threads: the send thread only."""
        popleft, count = self.marks.popleft, len(self.marks)
        if count < MAX_MARKS - _MARGIN:
            return [popleft() for _ in range(count)]
        self.marks.clear()  # some may have been forgotten, and more be while it is read
        return [(TORN, monotonic(), None)]


_forget: Callable[[Mark], object] = len
"""A C function, since a monitor that is off must cost nothing."""
