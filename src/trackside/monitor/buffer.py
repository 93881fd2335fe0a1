"""What `log()` writes into: one bounded queue of calls. No lock, so no thread and no signal handler ever waits."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from trackside.monitor.convert import DeviceRead

MAX_CALLS = 200_000
"""Calls that may wait, half a second of the tightest loop; beyond, new ones are dropped and counted."""
MAX_VALUES = 2_000_000
NO_EPOCH = -1

Call = tuple[int, float, int, dict[str, float]]
"""(epoch, time, step, values) as `log` got them, plain numbers only; no more is known of them than that."""


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A call with values that lie on a device."""

    time: float
    step: int
    epoch: int
    values: dict[str, float]
    """Those that are known already."""
    device: DeviceRead


class Buffer:
    """The bounded queue between any thread that logs and the one that sends.

    Appending is one atomic step. Packing the values at once would cost less memory, but measured with cold caches, as
    after a training step, it doubled the time of a call; a copied dict and a tuple are the cheapest there is. Neither is
    followed by the garbage collector for long: they hold nothing that it follows.

    Threads: any may put; the send thread takes.
    """

    __slots__ = ("calls", "dropped_values")

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()
        """Calls, device calls, and marks that the send thread understands, oldest first."""
        self.dropped_values = 0
        """Exact unless two threads drop at the same instant."""

    def put(self, call: Call | DeviceCall, count: int) -> None:
        """Append one call of `count` values, or drop and count it; `Monitor.log` has the same written out."""
        calls = self.calls
        if len(calls) < MAX_CALLS and len(calls) * count < MAX_VALUES:
            calls.append(call)
        else:
            self.dropped_values += count

    def put_mark(self, mark: object) -> None:
        """Append something that must stay in order with the calls."""
        self.calls.append(mark)

    def take(self) -> list[Any]:
        """Take everything that waits, oldest first. Threads: the send thread only."""
        popleft = self.calls.popleft
        return [popleft() for _ in range(len(self.calls))]
