"""What `log()` writes into: flat columns behind one short lock, bounded, swapped out whole by the send thread."""

import threading
from array import array
from dataclasses import dataclass, field
from typing import Any

MAX_VALUES = 4_000_000
"""Values that may wait (32 MB and their calls); beyond, new calls are dropped and counted."""
MAX_CALLS = 1_000_000
NO_EPOCH = -1

Keys = tuple[str, ...]


@dataclass(slots=True)
class Pending:
    """A call with values that are not on the CPU yet, or need converting."""

    time: float
    step: int
    epoch: int
    values: dict[str, Any]


@dataclass(slots=True)
class Columns:
    """Calls since the last swap."""

    time: "array[float]" = field(default_factory=lambda: array("d"))
    step: "array[int]" = field(default_factory=lambda: array("q"))
    epoch: "array[int]" = field(default_factory=lambda: array("i"))
    layout: "array[int]" = field(default_factory=lambda: array("I"))
    value: "array[float]" = field(default_factory=lambda: array("d"))
    pending: list[Pending] = field(default_factory=list)


class Buffer:
    """The bounded buffer.

    Threads: any may put; the send thread swaps. The lock is held for appends and for the swap only, never across I/O,
    encoding or logging.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.columns = Columns()
        self.layouts: dict[Keys, int] = {}
        """Key tuples seen so far, numbered; each call stores its number only."""
        self.keys: list[Keys] = []
        self.dropped_values = 0

    def layout_of(self, keys: Keys) -> int:
        """Number of a key tuple. Call with the lock held."""
        number = self.layouts.get(keys)
        if number is None:
            number = self.layouts[keys] = len(self.keys)
            self.keys.append(keys)
        return number

    def put(self, time: float, step: int, epoch: int, keys: Keys, values: list[float]) -> None:
        """Append one call of plain floats."""
        with self.lock:
            columns = self.columns
            if len(columns.time) >= MAX_CALLS or len(columns.value) + len(values) > MAX_VALUES:
                self.dropped_values += len(values)
                return
            columns.layout.append(self.layout_of(keys))
            columns.time.append(time)
            columns.step.append(step)
            columns.epoch.append(epoch)
            columns.value.extend(values)

    def put_pending(self, call: Pending) -> None:
        """Append one call whose values are converted later."""
        with self.lock:
            if len(self.columns.pending) >= MAX_CALLS // 10:
                self.dropped_values += len(call.values)
                return
            self.columns.pending.append(call)

    def swap(self) -> Columns:
        """Take everything that waits."""
        with self.lock:
            taken, self.columns = self.columns, Columns()
            return taken

    def renew_lock(self) -> None:
        """In a forked child the lock may be held by a thread that is not there."""
        self.lock = threading.Lock()
