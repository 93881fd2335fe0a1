"""Swapped-out columns to messages, on the send thread, with as little Python a value as can be."""

from array import array
from collections.abc import Callable, Iterator
from itertools import groupby

from trackside.monitor.buffer import NO_EPOCH, Buffer, Columns, Pending
from trackside.monitor.convert import DeviceScalar, to_float
from trackside.wire.messages import Points, SeriesDef

FRAME_VALUES = 65_536
MAX_NAME_LENGTH = 16_384


class EpochMeans:
    """This rank's mean of each metric over each open epoch."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, tuple[float, int]]] = {}

    def add(self, epoch: int, name: str, total: float, count: int) -> None:
        """Take `count` values that sum to `total`."""
        kept = self._sums.setdefault(epoch, {})
        before, known = kept.get(name, (0.0, 0))
        kept[name] = (before + total, known + count)

    def take(self, epoch: int) -> dict[str, float]:
        """The means of an epoch, which is closed by this."""
        return {name: total / count for name, (total, count) in self._sums.pop(epoch, {}).items()}


class Encoder:
    """Knows the session's series dictionary.

    Threads: the send thread only.
    """

    def __init__(self, buffer: Buffer, refuse: Callable[[str, str], None]) -> None:
        self.means = EpochMeans()
        self._buffer = buffer
        self._layouts = buffer.keys
        self._refuse = refuse
        self._series: dict[str, int] = {}
        self._new: list[SeriesDef] = []
        self._ids: dict[int, array[int]] = {}
        self._waiting: list[Pending] = []
        self._refused: set[str] = set()

    def encode(self, columns: Columns, *, flush: bool = False) -> Iterator[Points]:
        """Messages of all calls in `columns` and of earlier ones whose device values are ready by now."""
        self._resolve(columns, flush=flush)
        calls = len(columns.time)
        if not calls:
            return
        first, value_at = 0, 0
        widths = [len(self._layouts[number]) for number in columns.layout]
        while first < calls:
            last, values = first, 0
            while last < calls and (values + widths[last] <= FRAME_VALUES or last == first):
                values += widths[last]
                last += 1
            yield self._points(columns, first, last, value_at, value_at + values, widths)
            first, value_at = last, value_at + values

    def _points(
        self, columns: Columns, first: int, last: int, value_from: int, value_to: int, widths: list[int]
    ) -> Points:
        series = array("I")
        at = value_from
        runs = zip(columns.layout[first:last], columns.epoch[first:last], strict=True)
        for (layout, epoch), group in groupby(runs):
            count = sum(1 for _ in group)
            ids = self._ids_of(layout)
            series.extend(ids * count)
            if epoch != NO_EPOCH:
                self._add_means(epoch, layout, columns.value[at : at + count * len(ids)])
            at += count * len(ids)
        message = Points(
            defs=self._new,
            time=columns.time[first:last].tobytes(),
            step=columns.step[first:last].tobytes(),
            epoch=columns.epoch[first:last].tobytes(),
            width=array("I", widths[first:last]).tobytes(),
            series=series.tobytes(),
            value=columns.value[value_from:value_to].tobytes(),
        )
        self._new = []
        return message

    def _add_means(self, epoch: int, layout: int, values: "array[float]") -> None:
        keys = self._layouts[layout]
        for offset, name in enumerate(keys):
            own = values[offset :: len(keys)]
            self.means.add(epoch, name, sum(own), len(own))

    def _ids_of(self, layout: int) -> "array[int]":
        ids = self._ids.get(layout)
        if ids is None:
            ids = self._ids[layout] = array("I", [self._id(name) for name in self._layouts[layout]])
        return ids

    def _id(self, name: str) -> int:
        known = self._series.get(name)
        if known is None:
            known = self._series[name] = len(self._series)
            sent = name
            if len(name) > MAX_NAME_LENGTH:
                sent = f"{name[: MAX_NAME_LENGTH - 20]}…{known}"
                self._refuse(name[:60] + "…", f"a name of {len(name):,} characters; it is cut to {len(sent):,}")
            self._new.append(SeriesDef(id=known, name=sent))
        return known

    def _resolve(self, columns: Columns, *, flush: bool) -> None:
        """Turn pending calls into plain ones, in order; one whose device is not there yet waits."""
        self._waiting += columns.pending
        while self._waiting and (flush or _is_ready(self._waiting[0])):
            self._append(columns, self._waiting.pop(0))

    def _append(self, columns: Columns, call: Pending) -> None:
        keys, values = [], []
        for name, value in call.values.items():
            try:
                number = to_float(value)
            except (TypeError, ValueError, OverflowError, ArithmeticError, RuntimeError) as error:
                self._refuse_once(name, str(error))
                continue
            keys.append(name)
            values.append(number)
        if not keys:
            return
        with self._buffer.lock:
            number_of_layout = self._buffer.layout_of(tuple(keys))
        columns.layout.append(number_of_layout)
        columns.time.append(call.time)
        columns.step.append(call.step)
        columns.epoch.append(call.epoch)
        columns.value.extend(values)

    def _refuse_once(self, name: str, reason: str) -> None:
        if name not in self._refused and len(self._refused) < 1000:
            self._refused.add(name)
            self._refuse(name, f"its value is no number: {reason}")


def _is_ready(call: Pending) -> bool:
    return all(value.ready for value in call.values.values() if isinstance(value, DeviceScalar))
