"""Joins the points of many frames and sessions into one batch, with a constant number of array operations a batch.

Measured: one numpy call costs about a microsecond, so unpacking every small frame by itself would cost more than all the
rest of ingest; here a frame costs a few appends, and the columns are joined once.
"""

import numpy as np
import numpy.typing as npt

from trackside.errors import ProtocolError
from trackside.wire.columns import PointBatch
from trackside.wire.ids import MAX_SERIES
from trackside.wire.messages import Points


class SeriesMap:
    """Series ids of all sessions -> metric ids, as one array with a block for each session."""

    def __init__(self) -> None:
        self._map: npt.NDArray[np.int32] = np.full(1024, -2, np.int32)
        self._used = 0
        self._blocks: dict[bytes, tuple[int, int]] = {}

    def block(self, session: bytes) -> tuple[int, int]:
        """Start and size of a session's block; (0, 0) when it has none."""
        return self._blocks.get(session, (0, 0))

    def set(self, session: bytes, series: int, metric: int) -> None:
        """Enter one series; -1 marks a refused name.

        Raises:
            ProtocolError: an id no session may use.
        """
        if not 0 <= series < MAX_SERIES:
            raise ProtocolError(f"series id {series}; a session may use 0 to {MAX_SERIES - 1}")
        start, size = self.block(session)
        if series >= size:
            start = self._grow(session, start, size, max(16, 2 * size, series + 1))
        self._map[start + series] = metric

    def take(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Metric ids at these positions; -1 refused, -2 never defined."""
        return self._map[positions]

    def _grow(self, session: bytes, start: int, size: int, new_size: int) -> int:
        needed = self._used + new_size
        if needed > len(self._map):
            larger = np.full(max(needed, 2 * len(self._map)), -2, np.int32)
            larger[: self._used] = self._map[: self._used]
            self._map = larger
        fresh = self._used
        self._map[fresh : fresh + size] = self._map[start : start + size]
        self._blocks[session] = (fresh, new_size)
        self._used = needed
        return fresh


class Gathering:
    """Points taken since the last batch."""

    def __init__(self, series_map: SeriesMap) -> None:
        self._series_map = series_map
        self._sessions: set[bytes] = set()
        self._columns: tuple[list[bytes], ...] = ([], [], [], [], [], [])
        self._frames: list[tuple[int, int, int, int, int]] = []
        self._values = 0

    def __len__(self) -> int:
        return self._values

    def holds(self, session: bytes) -> bool:
        """Whether points of this session wait here."""
        return session in self._sessions

    def add(self, session: bytes, rank: int, generation: int, points: Points) -> int:
        """Take one frame's points and return how many values it has.

        Raises:
            ProtocolError: columns whose lengths contradict each other.
        """
        values = _check(points)
        if not values:
            return 0
        start, size = self._series_map.block(session)
        self._frames.append((start, size, rank, generation, values))
        for column, part in zip(
            self._columns,
            (points.width, points.time, points.step, points.epoch, points.series, points.value),
            strict=True,
        ):
            column.append(part)
        self._sessions.add(session)
        self._values += values
        return values

    def take(self) -> tuple[PointBatch, int, int]:
        """Return everything as one batch, with the number of values left out: refused names, undefined series."""
        width, time, step, epoch, series, value = (b"".join(column) for column in self._columns)
        start, size, rank, generation, values = np.array(self._frames, np.int64).reshape(-1, 5).T
        for column in self._columns:
            column.clear()
        self._frames.clear()
        self._sessions.clear()
        self._values = 0
        widths = np.frombuffer(width, "<u4")
        local = np.frombuffer(series, "<u4").astype(np.int64)
        known = local < np.repeat(size, values)
        positions = np.where(known, local + np.repeat(start, values), 0)
        metric = np.where(known, self._series_map.take(positions), -2).astype(np.int32)
        batch = PointBatch(
            metric=metric,
            rank=np.repeat(rank.astype(np.int32), values),
            generation=np.repeat(generation.astype(np.int32), values),
            epoch=np.repeat(np.frombuffer(epoch, "<i4"), widths),
            step=np.repeat(np.frombuffer(step, "<i8"), widths),
            time=np.repeat(np.frombuffer(time, "<f8"), widths),
            value=np.frombuffer(value, "<f8"),
        )
        taken = metric >= 0
        if taken.all():
            return batch, 0, 0
        refused, undefined = int((metric == -1).sum()), int((metric == -2).sum())
        return _select(batch, taken), refused, undefined


def _check(points: Points) -> int:
    calls, torn = divmod(len(points.width), 4)
    if torn or not 8 * calls == len(points.time) == len(points.step) == 2 * len(points.epoch):
        raise ProtocolError(
            f"a points message with {len(points.width)} bytes of widths for {len(points.time)} of times, "
            f"{len(points.step)} of steps, {len(points.epoch)} of epochs"
        )
    values, torn = divmod(len(points.value), 8)
    if calls == 1:
        total = int.from_bytes(points.width, "little")
    else:
        total = int(np.frombuffer(points.width, "<u4").sum(dtype=np.int64))
    if torn or total != values or len(points.series) != 4 * values:
        raise ProtocolError(f"a points message whose widths add up to {total}, with {values} values")
    return values


def _select(batch: PointBatch, rows: npt.NDArray[np.bool_]) -> PointBatch:
    return PointBatch(
        metric=batch.metric[rows],
        rank=batch.rank[rows],
        generation=batch.generation[rows],
        epoch=batch.epoch[rows],
        step=batch.step[rows],
        time=batch.time[rows],
        value=batch.value[rows],
    )
