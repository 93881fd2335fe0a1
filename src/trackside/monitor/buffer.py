"""What `log()` writes into: one bounded queue of calls. No lock, so no thread and no signal handler ever waits."""

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from trackside.monitor.convert import DeviceRead

MAX_CALLS = 400_000
"""Calls that may wait, a third of a second of the tightest loop; beyond, new ones are dropped and counted."""
MAX_VALUES = 2_000_000
LOOSE_VALUES = 800_000
"""Values that may wait as they are, in some 60 MB; whoever logs so much faster than it is sent pays for packing the next ones small."""
CALL_VALUES = 5
"""As many values weigh as much as a call itself."""
COPIES_A_SECOND = 200
COPIES_AHEAD = 200
"""Calls are copied into the ring at once, so many a second and so many more in a row; quicker ones wait for a turn."""
_APART_S, _AHEAD_S = 1 / COPIES_A_SECOND, COPIES_AHEAD / COPIES_A_SECOND
MOST_TAKEN = 10_000
"""Calls that are encoded in one turn: the controller hears of us and is heard meanwhile."""
NO_EPOCH = -1

NumberedCall = tuple[int, float, int, dict[str, float], int]
Call = tuple[int, float, int, dict[str, float]] | NumberedCall
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


def packed(items: Iterable[Any]) -> tuple[list[bytes], int]:
    """The calls among what waited, encoded, many in one piece; and the number of values that could not be."""
    pieces: list[bytes] = []
    loose: list[NumberedCall] = []
    lost = 0
    for item in items:
        if type(item) is bytes:
            pieces.append(item)
        elif type(item) is tuple:
            loose.append(item)
        elif isinstance(item, DeviceCall):
            lost += len(item.values) + len(item.device)
    try:
        pieces += [_joined(loose)] if loose else []
    except (TypeError, ValueError, OverflowError):
        for call in loose:
            try:
                pieces.append(encode_call(call))
            except (TypeError, ValueError, OverflowError):
                lost += len(call[3])
    return pieces, lost


def _joined(calls: list[NumberedCall]) -> bytes:
    """Calls encoded one behind the other: an array of them without its head, which takes a third of the time."""
    encoded = encode_call(calls)
    return encoded[1 if len(calls) < 16 else 3 if len(calls) < 65_536 else 5 :]


class Buffer:
    """The bounded queue between any thread that logs and the one that sends.

    A call is appended as it is, in one atomic step, which costs a training loop as little as can be. Two hundred times a
    second it takes more care: then the call is copied at once into the ring that outlives this process, and the bounds are
    looked after. A loop that logs no faster than that has each of its calls copied; of a faster one, the others are in a
    file with the send thread's next turn.

    Threads: any may put; the send thread takes.
    """

    __slots__ = ("_paid_until", "append", "calls", "careful_from", "dropped_values", "keep", "number")

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()
        """Calls, encoded calls, device calls, and marks that the send thread understands, oldest first."""
        self.append: Callable[[NumberedCall], None] = self.calls.append
        self.dropped_values = 0
        """Exact unless two threads drop at the same instant."""
        self.number: Callable[[], int] = itertools.count(1).__next__
        """Of the next call."""
        self.keep: Callable[[bytes], object] = keep_nothing
        """Copies an encoded call into the ring. Raises: ValueError when it is full."""
        self.careful_from = 0.0
        """Calls before this time may be appended as they are; two threads may both be careful."""
        self._paid_until = 0.0

    def put(self, call: Call | DeviceCall, count: int) -> None:
        """Append one call of `count` values, or drop and count it; `Monitor.log` has the same written out."""
        if isinstance(call, DeviceCall):
            if self._has_room(count):
                self.calls.append(call)
            return
        numbered = (*call[:4], self.number())
        if numbered[1] < self.careful_from:
            self.append(numbered)
        else:
            self.put_carefully(numbered)

    def put_carefully(self, call: NumberedCall) -> None:
        """Append a call, or drop and count it, and copy it into the ring; say when this is due again. Raises: never."""
        calls = self.calls
        if len(calls) * (len(call[3]) + CALL_VALUES) >= LOOSE_VALUES:
            self._pack(call)
            return
        calls.append(call)
        at, paid_until = call[1], self._paid_until
        self._paid_until = paid_until = (at if at > paid_until else paid_until) + _APART_S
        self.careful_from = paid_until - _AHEAD_S
        try:
            self.keep(encode_call(call))
        except (TypeError, OverflowError):
            pass  # an odd name or step, which has no second life; the send thread knows what to do
        except ValueError:
            self.keep = keep_nothing  # the ring is full, until the next turn

    def _pack(self, call: NumberedCall) -> None:
        """Append a call in little memory, and the next one too; drop it where there is no room."""
        self.careful_from = 0.0
        if not self._has_room(len(call[3])):
            return
        try:
            self.calls.append(encode_call(call))
        except (TypeError, ValueError, OverflowError):
            self.calls.append(call)

    def heed_clock(self, now: float) -> None:
        """The clock may have been set back since the last copy. Threads: the send thread."""
        if self.careful_from > now + _APART_S:
            self.careful_from = self._paid_until = 0.0

    def _has_room(self, count: int) -> bool:
        waiting = len(self.calls)
        if waiting < MAX_CALLS and waiting * count < MAX_VALUES:
            return True
        self.dropped_values += count
        return False

    def put_mark(self, mark: object) -> None:
        """Append something that must stay in order with the calls."""
        self.calls.append(mark)

    def take(self, most: int = sys.maxsize) -> list[Any]:
        """Take what waits, oldest first. Threads: the send thread only."""
        popleft = self.calls.popleft
        return [popleft() for _ in range(min(len(self.calls), most))]
