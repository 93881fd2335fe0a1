"""Steps by what was logged, in a script with neither `batches` nor an optimizer of torch's."""

from collections.abc import Iterable
from typing import Any

from trackside.monitor.phases.fold import Closing
from trackside.monitor.phases.track import CLOSE, OPEN, Mark

SURE_AFTER = 3
"""Steps that have to be logged before they count as such: a script may log once before it trains."""


class LoggedSteps:
    """Makes a border wherever the step of `log()` changes.

    Threads: the send thread only, which finds the calls in the buffer: `log()` itself does nothing for it.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._changes = 0

    def marks(self, calls: Iterable[Any], wall_clock: float, closing: Closing) -> list[Mark]:
        """The borders among what was logged.

        Args:
            calls: As the buffer held them.
            wall_clock: UTC epoch seconds at the monotonic clock's zero.
            closing: What is known of each of these steps; its own step does not count.
        """
        found: list[Mark] = []
        for call in calls:
            if type(call) is not tuple or type(call[2]) is not int or call[2] == self._step:
                continue
            at, self._step = call[1] - wall_clock, call[2]
            self._changes += 1
            if self._changes > SURE_AFTER:
                about = Closing(step=self._step, has_peers=closing.has_peers, knows_own=closing.knows_own)
                found.append((CLOSE, at, about))
            if self._changes >= SURE_AFTER:
                found.append((OPEN, at, None))
        return found
