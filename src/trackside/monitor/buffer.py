"""What `log()` writes into: one bounded queue of calls. No lock, so no thread and no signal handler ever waits."""

import itertools
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from trackside.monitor.convert import DeviceRead

MAX_CALLS = 400_000
"""Calls that may wait, half a second of the tightest loop; beyond, new ones are dropped and counted."""
MAX_VALUES = 2_000_000
MOST_TAKEN = 10_000
"""Calls that are encoded in one turn: the controller hears of us and is heard meanwhile."""
NO_EPOCH = -1

Call = tuple[int, float, int, dict[str, float]] | tuple[int, float, int, dict[str, float], int]
"""(epoch, time, step, values, number) as `log` got them, plain numbers only; no more is known of them than that.

The number counts the calls of a session from 1; one without has no copy in a ring."""

encode_call = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder().decode
keep_nothing: Callable[[bytes], object] = len
"""Where there is no ring, or no room in it. A C function, since a full ring must cost a tight loop nothing."""


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A call with values that lie on a device."""

    time: float
    step: int
    epoch: int
    values: dict[str, float]
    """Those that are known already."""
    device: DeviceRead


def values_of(item: Any) -> int:
    """How many values a call has that is not encoded."""
    if isinstance(item, DeviceCall):
        return len(item.values) + len(item.device)
    return len(item[3]) if type(item) is tuple else 0


class Buffer:
    """The bounded queue between any thread that logs and the one that sends.

    A call is encoded at once, by one call into C; the same bytes go into the queue and, by another one, into the ring that
    outlives this process. Appending is one atomic step, and so is each of the others.

    Threads: any may put; the send thread takes.
    """

    __slots__ = ("calls", "dropped_values", "keep", "number")

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()
        """Encoded calls, device calls, and marks that the send thread understands, oldest first."""
        self.dropped_values = 0
        """Exact unless two threads drop at the same instant."""
        self.number: Callable[[], int] = itertools.count(1).__next__
        """Of the next call."""
        self.keep: Callable[[bytes], object] = keep_nothing
        """Copies an encoded call into the ring. Raises: ValueError when it is full."""

    def put(self, call: Call | DeviceCall, count: int) -> None:
        """Append one call of `count` values, or drop and count it; `Monitor.log` has the same written out."""
        calls = self.calls
        if len(calls) >= MAX_CALLS or len(calls) * count >= MAX_VALUES:
            self.dropped_values += count
            return
        if isinstance(call, DeviceCall):
            calls.append(call)
            return
        try:
            record = encode_call((*call[:4], self.number()))
        except (TypeError, ValueError, OverflowError):  # names that are no text: the send thread knows what to do
            calls.append(call)
            return
        calls.append(record)
        try:
            self.keep(record)
        except ValueError:
            self.keep = keep_nothing

    def put_mark(self, mark: object) -> None:
        """Append something that must stay in order with the calls."""
        self.calls.append(mark)

    def take(self, most: int = sys.maxsize) -> list[Any]:
        """Take what waits, oldest first. Threads: the send thread only."""
        popleft = self.calls.popleft
        return [popleft() for _ in range(min(len(self.calls), most))]
