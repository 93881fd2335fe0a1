"""Packed calls to messages, on the send thread, with as little Python a value as can be."""

import struct
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from trackside.monitor.buffer import HEAD, NO_EPOCH, Buffer, LooseCall
from trackside.monitor.epochs import ClosedEpoch, EpochMeans
from trackside.wire.messages import EpochReport, Points, SeriesDef

FRAME_VALUES = 65_536
"""Values after which a message is full."""
DEFINITION_BYTES = 1_048_576
"""Names after which a message of their own goes ahead."""
MAX_NAME_LENGTH = 16_384
MAX_SERIES = 50_000
DEVICE_WAIT_S = 1.0
"""How long the last values of a device are waited for at the end."""

_LAYOUT_AND_EPOCH = itemgetter(slice(0, 8))
_LAYOUT_EPOCH = struct.Struct("=Ii")
_VALUES = HEAD.size


class Encoder:
    """Knows the session's series dictionary.

    Args:
        buffer: names the layouts.
        refuse: called with (name, reason) for a name or value that is not taken as it is.

    Threads: the send thread only.
    """

    def __init__(self, buffer: Buffer, refuse: Callable[[str, str], None]) -> None:
        self.means = EpochMeans()
        self.lost_values = 0
        """Values that could not be read, or have a name too many."""
        self._buffer = buffer
        self._refuse = refuse
        self._series: dict[str, int] = {}
        self._new: list[SeriesDef] = []
        self._ids: dict[int, array[int] | None] = {}
        self._waiting: deque[Any] = deque()
        """Loose calls whose device is not there yet, and the epochs closed after them."""

    def encode(self, items: Iterable[Any], *, flush: bool = False) -> Iterator[Points | EpochReport]:
        """Messages of what the buffer held and of what waited for a device.

        Args:
            items: calls and marks as `Buffer.take` returned them.
            flush: the end: what still waits is waited for, up to a second, then given up.
        """
        rows: list[bytes] = []
        for item in items:
            if type(item) is bytes:
                rows.append(item)
            else:
                self._waiting.append(item)
                yield from self._settle(rows, flush=flush)
        yield from self._settle(rows, flush=flush)
        yield from self._messages(rows)

    def announce_again(self, definitions: list[SeriesDef]) -> None:
        """A message was lost before it was sent: what it named is named again."""
        self._new += definitions

    def _settle(self, rows: list[bytes], *, flush: bool) -> Iterator[Points | EpochReport]:
        """Take what waits, in order, as far as its values are there."""
        while self._waiting:
            head = self._waiting[0]
            if isinstance(head, LooseCall):
                if not self._is_ready(head, flush=flush):
                    return
                self._waiting.popleft()
                self._take_loose(head, rows)
                continue
            self._waiting.popleft()
            if isinstance(head, ClosedEpoch):
                yield from self._messages(rows)
                rows.clear()
                yield head.report(self.means.take(head.epoch))

    def _is_ready(self, call: LooseCall, *, flush: bool) -> bool:
        """Whether a call can be taken now; one whose device has failed can, and is counted as lost there."""
        if call.device is None:
            return True
        try:
            return call.device.wait(DEVICE_WAIT_S) or flush if flush else call.device.is_ready
        except RuntimeError:
            return True

    def _take_loose(self, call: LooseCall, rows: list[bytes]) -> None:
        values = call.values
        if call.device is not None:
            try:
                if call.device.is_ready:
                    values = {**values, **call.device.values()}
                else:
                    self.lost_values += len(call.device)
            except RuntimeError:
                self.lost_values += len(call.device)
        keys = tuple(values)
        if keys in self._buffer.layouts:
            rows.append(self._buffer.layouts[keys](call.epoch, call.time, call.step, *values.values()))
            return
        try:
            pack = self._buffer.add_layout(keys)
        except OverflowError:
            self._take_singly(call, values, rows)
            return
        rows.append(pack(call.epoch, call.time, call.step, *values.values()))

    def _take_singly(self, call: LooseCall, values: dict[str, float], rows: list[bytes]) -> None:
        """Names in ever new combinations: each value becomes a call of its own, so that only names are numbered."""
        for name, value in values.items():
            keys = (name,)
            pack = self._buffer.layouts.get(keys)
            if pack is None and len(self._series) < MAX_SERIES:
                pack = self._buffer.add_layout(keys, limit=MAX_SERIES)
            if pack is None:
                self._refuse_series(name)
                self.lost_values += 1
                continue
            rows.append(pack(call.epoch, call.time, call.step, value))

    # --- columns -----------------------------------------------------------------------------------------------------

    def _messages(self, rows: list[bytes]) -> Iterator[Points]:
        """Messages of packed calls, none much larger than `FRAME_VALUES`."""
        first, count = 0, 0
        for index, row in enumerate(rows) if sum(map(len, rows)) > FRAME_VALUES * 8 else ():
            count += len(row) >> 3
            if count >= FRAME_VALUES:
                yield from self._points(rows[first : index + 1])
                first, count = index + 1, 0
        if first < len(rows):
            yield from self._points(rows[first:] if first else rows)

    def _points(self, rows: list[bytes]) -> Iterator[Points]:
        """One message, and before it those that only name series."""
        width, series = array("I"), array("I")
        kept: list[bytes] = []
        for key, group in groupby(rows, key=_LAYOUT_AND_EPOCH):
            layout, epoch = _LAYOUT_EPOCH.unpack(key)
            calls = list(group)
            ids = self._ids_of(layout)
            if ids is None:
                self.lost_values += len(calls) * len(self._buffer.keys[layout])
                continue
            width.extend([len(ids)] * len(calls))
            series.extend(ids * len(calls))
            kept += calls
            if epoch != NO_EPOCH:
                self._add_means(epoch, layout, calls)
            if self._definition_bytes() > DEFINITION_BYTES:
                yield from self._definitions_alone()
        if kept:
            yield Points(
                defs=self._take_definitions(),
                time=b"".join([row[8:16] for row in kept]),
                step=b"".join([row[16:24] for row in kept]),
                epoch=b"".join([row[4:8] for row in kept]),
                width=width.tobytes(),
                series=series.tobytes(),
                value=b"".join([row[_VALUES:] for row in kept]),
            )

    def _add_means(self, epoch: int, layout: int, calls: list[bytes]) -> None:
        names = self._buffer.keys[layout]
        values = memoryview(b"".join([call[_VALUES:] for call in calls])).cast("d")
        for offset, name in enumerate(names):
            self.means.add(epoch, name, sum(values[offset :: len(names)]), len(calls))

    # --- names -------------------------------------------------------------------------------------------------------

    def _ids_of(self, layout: int) -> "array[int] | None":
        """Session ids of a layout's names; None when one of them is a name too many."""
        if layout not in self._ids:
            ids = [self._id(name) for name in self._buffer.keys[layout]]
            self._ids[layout] = None if None in ids else array("I", [number for number in ids if number is not None])
        return self._ids[layout]

    def _id(self, name: str) -> int | None:
        known = self._series.get(name)
        if known is None:
            if len(self._series) >= MAX_SERIES:
                self._refuse_series(name)
                return None
            known = self._series[name] = len(self._series)
            self._new.append(SeriesDef(id=known, name=self._sendable(name, known)))
        return known

    def _sendable(self, name: str, number: int) -> str:
        """The name as UTF-8 can hold it, cut when it is longer than any name should be."""
        text = name.encode("utf-8", "replace").decode("utf-8")
        if len(text) <= MAX_NAME_LENGTH:
            return text
        self._refuse(name[:60] + "…", f"a name of {len(name):,} characters; it is cut to {MAX_NAME_LENGTH:,}")
        return f"{text[: MAX_NAME_LENGTH - 12]}…{number}"

    def _refuse_series(self, name: str) -> None:
        self._refuse(name, f"one name too many, after {MAX_SERIES:,}; put what changes into the step, not the name")

    def _definition_bytes(self) -> int:
        return sum(len(definition.name) for definition in self._new)

    def _definitions_alone(self) -> Iterator[Points]:
        """Messages that only name series, each of about a mebibyte of names."""
        waiting, self._new = self._new, []
        while waiting:
            length, count = 0, 0
            while count < len(waiting) and (not count or length < DEFINITION_BYTES):
                length += len(waiting[count].name)
                count += 1
            yield Points(defs=waiting[:count], time=b"", step=b"", epoch=b"", width=b"", series=b"", value=b"")
            waiting = waiting[count:]

    def _take_definitions(self) -> list[SeriesDef]:
        taken, self._new = self._new, []
        return taken
