"""Calls as columns: arrays that only ever grow by a whole call, and the session's names."""

from array import array
from collections.abc import Callable

from trackside.monitor.buffer import NO_EPOCH, Call
from trackside.monitor.declaration import Declaration
from trackside.monitor.epochs import EpochMeans, sendable_name
from trackside.wire.messages import SeriesDef

MAX_NAME_LENGTH = 16_384
MAX_SERIES = 50_000
MAX_LAYOUTS = 10_000
"""Combinations of names that are remembered; more are worked out again each time."""

Keys = tuple[str, ...]
Ids = "array[int]"


class Names:
    """The session's series dictionary.

    Args:
        refuse: Called with (name, reason) for one that is not taken as it is.

    Threads: the send thread only.
    """

    def __init__(self, refuse: Callable[[str, str], None]) -> None:
        self.new: list[SeriesDef] = []
        """Named since a message last took them along."""
        self.is_amended = False
        """Whether one of them was known already, and is told without waiting for values."""
        self._refuse = refuse
        self._series: dict[str, int] = {}
        self._layouts: dict[Keys, array[int]] = {}
        self._changed: dict[str, str] = {}
        """Names that had to be cut, as they were sent."""
        self._declared: dict[str, Declaration] = {}

    def declare(self, declaration: Declaration) -> None:
        """Take the user's word on a metric that is logged, or will be; the last one wins."""
        name = declaration.name
        if name not in self._declared and len(self._declared) >= MAX_SERIES:
            return
        self._declared[name] = declaration
        number = self._series.get(name)
        if number is not None:
            self.new.append(self._definition(name, number))
            self.is_amended = True

    def current(self, definition: SeriesDef) -> SeriesDef:
        """A definition as it would be sent now."""
        return next(
            (
                self._definition(name, definition.id)
                for name in self._declared
                if self._series.get(name) == definition.id
            ),
            definition,
        )

    def as_sent(self, name: str) -> str:
        """A name as its points have it."""
        return self._changed.get(name) or sendable_name(name)[:MAX_NAME_LENGTH]

    def ids_of(self, keys: Keys) -> "array[int]":
        """Session ids of the names of a call.

        Raises:
            TypeError: A name that is no text, or is empty.
            OverflowError: A name too many, which has been said.
        """
        ids = self._layouts.get(keys)
        if ids is None:
            ids = array("I", map(self._id, keys))
            if len(self._layouts) < MAX_LAYOUTS:
                self._layouts[keys] = ids
        return ids

    def _id(self, name: str) -> int:
        known = self._series.get(name)
        if known is not None:
            return known
        if type(name) is not str or not name:
            raise TypeError(f"the name {name!r} is no text")
        if len(self._series) >= MAX_SERIES:
            self._refuse(name, f"one name too many, after {MAX_SERIES:,}; put what changes into the step, not the name")
            raise OverflowError("a name too many")
        number = self._series[name] = len(self._series)
        self.new.append(self._definition(name, number))
        return number

    def _definition(self, name: str, number: int) -> SeriesDef:
        text, said = self._changed.get(name) or self._sendable(name, number), self._declared.get(name)
        if said is None:
            return SeriesDef(id=number, name=text)
        return SeriesDef(id=number, name=text, unit=said.unit, reduction=said.reduction, declared=True)

    def _sendable(self, name: str, number: int) -> str:
        """The name as UTF-8 can hold it, cut when it is longer than any name should be."""
        text = sendable_name(name)
        if len(text) <= MAX_NAME_LENGTH:
            return text
        self._refuse(f"{name[:60]}…", f"a name of {len(name):,} characters; it is cut to {MAX_NAME_LENGTH:,}")
        cut = self._changed[name] = f"{text[: MAX_NAME_LENGTH - 12]}…{number}"
        return cut


class Columns:
    """Calls under way to one message.

    Threads: the send thread only.
    """

    def __init__(self, names: Names, means: EpochMeans) -> None:
        self.time, self.step, self.epoch = array("d"), array("q"), array("i")
        self.width, self.series, self.value = array("I"), array("I"), array("d")
        self._names, self._means = names, means
        self._keys: Keys = ()
        self._ids = array("I")
        self._run_epoch, self._run_from = NO_EPOCH, 0

    def __len__(self) -> int:
        return len(self.time)

    def add(self, call: Call) -> None:
        """Take one call, whole or not at all.

        Raises:
            TypeError, OverflowError: Something in it does not fit.
        """
        epoch, time, step, values = call[:4]
        keys = tuple(values)
        if keys != self._keys or epoch != self._run_epoch:
            self._begin_run(keys, epoch)
        before = len(self.value)
        try:
            self.value.extend(values.values())
            self.step.append(step)
            self.epoch.append(epoch)
        except (TypeError, OverflowError):
            del self.value[before:]
            del self.step[len(self.time) :]
            raise
        self.time.append(time)
        self.width.append(len(keys))
        self.series.extend(self._ids)

    def close_run(self) -> None:
        """Add the calls since the last one of another kind to the means of their epoch."""
        first, self._run_from = self._run_from, len(self.value)
        if self._run_epoch == NO_EPOCH or first == len(self.value):
            return
        values, width = self.value[first:], len(self._keys)
        for offset, name in enumerate(self._keys):
            self._means.add(self._run_epoch, name, values[offset::width])

    def _begin_run(self, keys: Keys, epoch: int) -> None:
        ids = self._names.ids_of(keys)
        self.close_run()
        self._keys, self._ids, self._run_epoch = keys, ids, epoch
