"""Calls to messages, on the send thread."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from trackside.monitor.buffer import Call, DeviceCall, decode_call
from trackside.monitor.columns import Columns, Names
from trackside.monitor.declaration import Declaration
from trackside.monitor.epochs import ClosedEpoch, EpochMeans
from trackside.monitor.intake import DEVICE_WAIT_S, tidy
from trackside.wire.messages import EpochReport, Points, SeriesDef
from trackside.wire.ring import FRAME_VALUES

DEFINITION_CHARACTERS = 1_048_576
"""Names after which a message of their own goes ahead."""


class Numbers:
    """A set of numbers from 1 that come nearly in order: two threads may swap two."""

    MOST_BEYOND = 1_000

    def __init__(self) -> None:
        self.through = 0
        """All up to this one."""
        self.beyond: set[int] = set()
        """Others."""

    def take(self, number: int) -> None:
        """Add one."""
        if number != self.through + 1:
            self.beyond.add(number)
            if len(self.beyond) <= self.MOST_BEYOND:
                return
            self.through = min(self.beyond) - 1  # whoever drew the number before never came with its call
            number = self.through + 1
            self.beyond.discard(number)
        self.through = number
        while self.beyond and self.through + 1 in self.beyond:
            self.through += 1
            self.beyond.discard(self.through)


class Encoder:
    """Turns what the buffer held into messages, in order.

    Args:
        refuse: Called with (name, reason) for a name or value that is not taken as it is.
        complain: Called with a sentence for a call of which nothing can be taken.

    Threads: the send thread only.
    """

    def __init__(self, refuse: Callable[[str, str], None], complain: Callable[[str], None]) -> None:
        self.lost_values = 0
        """Values that could not be read, or have a name too many."""
        self.numbers = Numbers()
        """Of the calls that are in messages, or lost and counted."""
        self._refuse, self._complain = refuse, complain
        self._names = Names(refuse)
        self._means = EpochMeans()
        self._columns = Columns(self._names, self._means)
        self._waiting: deque[Any] = deque()
        """Device calls whose values are not there yet, and the epochs closed after them."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for a device, or to be named again."""
        return not self._waiting and not self._names.new

    def encode(self, items: Iterable[Any], *, flush: bool = False) -> Iterator[Points | EpochReport]:
        """Messages of what the buffer held and of what waited for a device.

        Args:
            items: As `Buffer.take` returned them.
            flush: The end: what still waits is waited for, up to a second, then given up.
        """
        for item in items:
            if type(item) is bytes:
                self._add_encoded(item)
                if len(self._columns.value) >= FRAME_VALUES:
                    yield from self._message()
            elif type(item) is tuple:
                self._add(item)
                if len(self._columns.value) >= FRAME_VALUES:
                    yield from self._message()
            else:
                self._waiting.append(item)
                yield from self._settle(flush=flush)
        yield from self._settle(flush=flush)
        yield from self._message()

    def announce_again(self, definitions: Iterable[SeriesDef]) -> None:
        """A message was lost before it was sent: what it named is named again."""
        self._names.new += map(self._names.current, definitions)

    def _add_encoded(self, record: bytes) -> None:
        try:
            call = decode_call(record)
        except msgspec.DecodeError:  # a name that MessagePack has, and Python does not as a key
            self.lost_values += 1
            return
        self._add(call)

    def _add(self, call: Call) -> None:
        try:
            self._columns.add(call)
        except (TypeError, OverflowError):
            self._add_tidied(call)
        if len(call) == 5:  # it has a number
            self.numbers.take(call[4])

    def _add_tidied(self, call: Call) -> None:
        """A call that is not what it should be: names that are no text, a step that is no whole number."""
        epoch, time, step, values = call[:4]
        tidied = tidy(epoch, time, step, values, self._refuse)
        if isinstance(tidied, str):
            self._complain(tidied)
            return
        if isinstance(tidied, DeviceCall):
            return
        try:
            self._columns.add(tidied)
        except (TypeError, OverflowError):
            self._add_singly(tidied)

    def _add_singly(self, call: Call) -> None:
        """There is a name too many among them; the others are taken."""
        epoch, time, step, values = call[:4]
        for name, value in values.items():
            try:
                self._columns.add((epoch, time, step, {name: value}))
            except (TypeError, OverflowError):
                self.lost_values += 1

    # --- devices and epochs ------------------------------------------------------------------------------------------

    def _settle(self, *, flush: bool) -> Iterator[Points | EpochReport]:
        """Take what waits, in order, as far as its values are there."""
        while self._waiting:
            head = self._waiting[0]
            if isinstance(head, DeviceCall) and not self._is_ready(head, flush=flush):
                return
            self._waiting.popleft()
            if isinstance(head, DeviceCall):
                self._add((head.epoch, head.time, head.step, {**head.values, **self._read(head)}))
            elif isinstance(head, Declaration):
                self._names.declare(head)
            elif isinstance(head, ClosedEpoch):
                yield from self._message()
                yield head.report(self._means.take(head.epoch), self._names.as_sent)

    def _is_ready(self, call: DeviceCall, *, flush: bool) -> bool:
        """Whether a call can be taken now; one whose device has failed can, and is counted as lost."""
        try:
            return call.device.is_ready if not flush else call.device.wait(DEVICE_WAIT_S) or True
        except RuntimeError:
            return True

    def _read(self, call: DeviceCall) -> dict[str, float]:
        try:
            if call.device.is_ready:
                return call.device.values()
        except RuntimeError:
            pass
        self.lost_values += len(call.device)
        return {}

    # --- messages ----------------------------------------------------------------------------------------------------

    def _message(self) -> Iterator[Points]:
        """One message of what has gathered, and before it those that only name series."""
        columns = self._columns
        columns.close_run()
        yield from self._definitions_alone()
        if not len(columns) and not self._names.is_amended:
            return
        self._columns = Columns(self._names, self._means)
        definitions, self._names.new, self._names.is_amended = self._names.new, [], False
        yield Points(
            defs=definitions,
            time=columns.time.tobytes(),
            step=columns.step.tobytes(),
            epoch=columns.epoch.tobytes(),
            width=columns.width.tobytes(),
            series=columns.series.tobytes(),
            value=columns.value.tobytes(),
            through=self.numbers.through,
            beyond=sorted(self.numbers.beyond),
        )

    def _definitions_alone(self) -> Iterator[Points]:
        """While there are more than a mebibyte of new names: messages that only name series."""
        while sum(len(definition.name) for definition in self._names.new) > DEFINITION_CHARACTERS:
            length, count = 0, 0
            while length < DEFINITION_CHARACTERS:
                length += len(self._names.new[count].name)
                count += 1
            ahead, self._names.new = self._names.new[:count], self._names.new[count:]
            yield Points(defs=ahead, time=b"", step=b"", epoch=b"", width=b"", series=b"", value=b"")
