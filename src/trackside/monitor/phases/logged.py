"""Steps by what was logged, in a script with neither `batches` nor an optimizer of torch's."""

from collections.abc import Iterable
from typing import Any

import msgspec

from trackside.monitor.phases.fold import Closing
from trackside.monitor.phases.track import CLOSE, OPEN, Mark

_decode_head = msgspec.msgpack.Decoder(tuple[msgspec.Raw, float, Any, msgspec.Raw, msgspec.Raw]).decode
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
            time, step = _time_and_step(call)
            if type(step) is not int or step == self._step:
                continue
            at, self._step = time - wall_clock, step
            self._changes += 1
            if self._changes > SURE_AFTER:
                about = Closing(step=self._step, has_peers=closing.has_peers, knows_own=closing.knows_own)
                found.append((CLOSE, at, about))
            if self._changes >= SURE_AFTER:
                found.append((OPEN, at, None))
        return found


def _time_and_step(call: Any) -> tuple[float, Any]:
    """Of a call of plain numbers; no step for everything else."""
    if type(call) is bytes:
        _, time, step, *_ = _decode_head(call)
        return time, step
    return (call[1], call[2]) if type(call) is tuple else (0.0, None)
