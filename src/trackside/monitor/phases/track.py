"""The track: marks of what began and ended when, appended by the training thread and taken by the send thread."""

from collections import deque
from time import monotonic
from typing import Any, Protocol

from trackside.monitor.phases.cores import CoreWait
from trackside.monitor.phases.names import BETWEEN

MAX_MARKS = 200_000
"""Marks that may wait, seconds of the tightest loop; beyond, they are dropped, and the steps among them with them."""

(
    ENTER,  # a phase begins; its name
    LEAVE,  # the phase of this name ends, and whatever began inside
    OPEN,  # a step begins, unless one is open
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

    Appending is one atomic step: no lock, so neither a signal handler nor an autograd thread ever waits for another.

    Threads: the training thread and autograd's put; the send thread takes.
    """

    __slots__ = ("_is_torn", "clock", "cores", "doing", "is_on", "marks")

    def __init__(self) -> None:
        self.marks: deque[Mark] = deque()
        self.doing: str | None = None
        """The phase that the training thread is in, for heartbeats; None before the first."""
        self.is_on = True
        self.clock: MarkClock | None = None
        """Of a device, which gives marks their time later; None: the host's clock is right."""
        self.cores = CoreWait()
        self._is_torn = False

    def put(self, code: int, about: Any = None) -> None:
        """Append a mark."""
        marks = self.marks
        if not self.is_on:
            return
        if len(marks) >= MAX_MARKS:
            self._is_torn = True
            return
        if self._is_torn:
            self._is_torn = False
            marks.append((TORN, monotonic(), None))
        if self.clock is None or code in (SPAN_BEGINS, SPAN_ENDS):  # an epoch's report does not wait for a device
            marks.append((code, monotonic(), about))
            return
        self._hold(self.clock, (code, monotonic(), about))

    def _hold(self, clock: MarkClock, mark: Mark) -> None:
        try:
            clock.hold(mark)
            if mark[0] in (CLOSE, POP):
                self.marks.extend(clock.passed())
        except RuntimeError:  # the device has failed, which the user's own code is about to hear
            self.clock, self._is_torn = None, True

    def note_cores(self) -> None:
        """Say how long this thread has waited for a core, before waiting for peers begins or ends."""
        if self.cores.is_looking and self.clock is None and self.is_on:  # a device's time does not hold that
            text = self.cores.read()
            if text is not None:
                self.put(CORES, (text, None))

    def turn_cores(self) -> None:
        """The same where a step ends and another may begin, unless neither is looked at."""
        if self.clock is not None or not self.is_on:
            return
        turned = self.cores.turn(monotonic())
        if turned is not None:
            self.put(CORES, turned)

    def settle(self) -> None:
        """Take what the device has passed by now. Threads: the training thread."""
        if self.clock is not None:
            self.marks.extend(self.clock.passed())

    # The same as `put`, written out: these two are most of what a step pays for.

    def enter(self, phase: str) -> str | None:
        """A phase begins; return the one that it interrupts, for `leave`."""
        before, self.doing = self.doing, phase
        if self.clock is None and not self._is_torn and self.is_on and len(self.marks) < MAX_MARKS:
            self.marks.append((ENTER, monotonic(), phase))
        else:
            self.put(ENTER, phase)
        return before

    def leave(self, phase: str, before: str | None) -> None:
        """The phase ends."""
        if self.clock is None and not self._is_torn and self.is_on and len(self.marks) < MAX_MARKS:
            self.marks.append((LEAVE, monotonic(), phase))
        else:
            self.put(LEAVE, phase)
        self.doing = before

    def rest(self, *, in_step: str | None = None) -> None:
        """Say what goes on when no phase does: a step's body, or nothing of a step."""
        self.doing = in_step or BETWEEN

    def take(self) -> list[Mark]:
        """Take everything that waits, oldest first. Threads: the send thread only."""
        popleft = self.marks.popleft
        return [popleft() for _ in range(len(self.marks))]
