"""What `log()` writes into: one bounded queue of packed calls. No lock, so no thread and no signal handler ever waits."""

import itertools
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from trackside.monitor.convert import DeviceRead

MAX_VALUES = 4_000_000
"""Values that may wait (about 32 MB and their calls); beyond, new calls are dropped and counted."""
MAX_CALLS = 400_000
MAX_LAYOUTS = 10_000
NO_EPOCH = -1

HEAD = struct.Struct("=Iidq")
"""Layout number, epoch, time and step of a call; its values follow as float64."""

Keys = tuple[str, ...]
Pack = Callable[..., bytes]
"""(epoch, time, step, *values) to one packed call; raises struct.error on what is no number."""


@dataclass(frozen=True, slots=True)
class LooseCall:
    """A call that cannot be packed yet: values of devices, or names that change too often to be numbered."""

    time: float
    step: int
    epoch: int
    values: dict[str, float]
    device: DeviceRead | None = None


class Buffer:
    """The bounded queue between any thread that logs and the one that sends.

    A call is packed into bytes by the layout of its names, then appended: one atomic step, nothing the garbage collector
    follows. The counters are exact unless two threads drop at the same instant.

    Threads: any may put; the send thread takes.
    """

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()
        """Packed calls, loose calls, and marks that the send thread understands, oldest first."""
        self.held_values = 0
        """About how many values wait; set right at each `take`."""
        self.dropped_values = 0
        self.layouts: dict[Keys, Pack] = {}
        self.keys: dict[int, Keys] = {}
        self._numbers = itertools.count()

    def add_layout(self, keys: Keys, limit: int = MAX_LAYOUTS) -> Pack:
        """Number a tuple of names.

        Raises:
            TypeError: a name that is no text, or is empty.
            OverflowError: there are too many layouts; put such calls loosely.
        """
        if len(self.layouts) >= limit:
            raise OverflowError(f"more than {limit:,} combinations of names")
        for name in keys:
            if type(name) is not str or not name:
                raise TypeError(f"the name {name!r} is no text")
        number = next(self._numbers)
        self.keys[number] = keys
        pack = partial(struct.Struct(f"{HEAD.format}{len(keys)}d").pack, number)
        self.layouts[keys] = pack
        return pack

    def has_room(self, values: int) -> bool:
        """Whether a call of so many values may be put; one that may not is counted as dropped."""
        if len(self.calls) >= MAX_CALLS or self.held_values + values > MAX_VALUES:
            self.dropped_values += values
            return False
        return True

    def put(self, epoch: int, time: float, step: int, values: dict[str, float]) -> None:
        """Append one call of plain numbers; `Monitor.log` has the same written out.

        Raises:
            TypeError, OverflowError, struct.error: as `add_layout` and for what does not fit.
        """
        keys = tuple(values)
        pack = self.layouts.get(keys) or self.add_layout(keys)
        call = pack(epoch, time, step, *values.values())
        if self.has_room(len(keys)):
            self.calls.append(call)
            self.held_values += len(keys)

    def put_loose(self, call: LooseCall) -> None:
        """Append one call that is packed later."""
        count = len(call.values) + (len(call.device) if call.device is not None else 0)
        if self.has_room(count):
            self.calls.append(call)
            self.held_values += count

    def put_mark(self, mark: object) -> None:
        """Append something that must stay in order with the calls."""
        self.calls.append(mark)

    def take(self) -> list[Any]:
        """Take everything that waits, oldest first. Threads: the send thread only."""
        popleft = self.calls.popleft
        taken = [popleft() for _ in range(len(self.calls))]
        self.held_values = 0
        return taken
