"""What each rank's steps took over the whole run, in a bounded number of columns."""

import math
from typing import Any

import msgspec
import numpy as np

from trackside.run.diagnose.entries import Array, Entries
from trackside.wire.documents import HeatAnswer

MOST_CELLS = 65_536
"""Of one quantity."""
MOST_COLUMNS = 1024
DIGITS = 4
"""Significant digits of a cell in JSON."""
WALL, OWN, DATA = 0, 1, 2


class HeatSnapshot(msgspec.Struct):
    """A `HeatMap` in a checkpoint."""

    ranks: list[int] = []
    stride: int = 1
    first: int = 0
    columns: int = 0
    highest: int = 0
    sums: bytes = b""
    """float32, quantities times ranks times columns."""
    counts: bytes = b""
    times: bytes = b""
    """float64, one a column."""


class HeatMap:
    """Sums and counts of steps; when the columns are full, neighbours are merged in pairs.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self.stride = 1
        """Steps of a column."""
        self.first = 0
        """Number of the first column: its first step by the stride."""
        self._columns = 0
        self._highest = 0
        self._rows: dict[int, int] = {}
        self._sums = np.zeros((3, 0, 0), np.float32)
        self._counts = np.zeros((3, 0, 0), np.float32)
        self._times = np.zeros(0)

    def begin(self, rank: int, step: int) -> None:
        """A rank's new process does steps from here on again: those it did before do not count."""
        row = self._rows.get(rank)
        if row is not None:
            start = max(0, step // self.stride - self.first)
            self._sums[:, row, start:] = self._counts[:, row, start:] = 0.0

    def take(self, entries: Entries) -> None:
        """Add entries."""
        if not len(entries):
            return
        for rank in np.unique(entries.rank).tolist():
            if rank not in self._rows:
                self._rows[rank] = len(self.ranks)
                self.ranks.append(rank)
        self._highest = max(self._highest, int(entries.step.max()))
        self._make_room(int(entries.step.min()), self._highest)
        rows = _lookup(self._rows, entries.rank)
        columns = entries.step // self.stride - self.first
        data = entries.seconds[:, entries.phases.index("data")] if "data" in entries.phases else None
        for quantity, values in ((WALL, entries.wall), (OWN, entries.own), (DATA, data)):
            if values is None:
                continue
            known = np.isfinite(values)
            place = rows[known] * self._sums.shape[2] + columns[known]
            np.add.at(self._sums[quantity].reshape(-1), place, values[known].astype(np.float32))
            np.add.at(self._counts[quantity].reshape(-1), place, entries.count[known].astype(np.float32))
        np.maximum.at(self._times, columns, entries.ended_at)

    def _make_room(self, lowest: int, highest: int) -> None:
        limit = max(2, min(MOST_COLUMNS, MOST_CELLS // len(self.ranks)))
        first, last = lowest // self.stride, highest // self.stride
        if self._columns:
            first, last = min(first, self.first), max(last, self.first + self._columns - 1)
        stride = self.stride
        while last - first >= limit:
            stride, first, last = stride * 2, first // 2, last // 2
        columns = last - first + 1
        is_moved = bool(self._columns) and (stride, first) != (self.stride, self.first)
        if is_moved or columns > self._sums.shape[2] or self._is_narrow():
            self._lay_out(stride, first, columns, limit)
        self.stride, self.first, self._columns = stride, first, columns

    def _is_narrow(self) -> bool:
        return self._sums.shape[1] < len(self.ranks)

    def _lay_out(self, stride: int, first: int, columns: int, limit: int) -> None:
        """Sort everything into columns of so many steps, with room to grow."""
        old = self._sums.shape
        room = min(limit, max(64, 2 * columns)) if columns > old[2] or columns <= old[2] // 4 else old[2]
        room = max(room, columns)
        height = old[1] if old[1] >= len(self.ranks) else max(8, 2 * old[1], len(self.ranks))
        target = np.arange(self.first, self.first + self._columns) * self.stride // stride - first
        sums, counts = (np.zeros((3, height, room), np.float32) for _ in range(2))
        times = np.zeros(room)
        for new, before in ((sums, self._sums), (counts, self._counts)):
            for at, column in enumerate(target.tolist()):
                new[:, : old[1], column] += before[:, :, at]
        np.maximum.at(times, target, self._times[: self._columns])
        self._sums, self._counts, self._times = sums, counts, times

    def answer(self, ranks: "frozenset[int] | None" = None) -> HeatAnswer:
        """The document, of these ranks or of all; columns in which nothing is known are left out."""
        shown = sorted(rank for rank in self.ranks if ranks is None or rank in ranks)
        rows = [self._rows[rank] for rank in shown]
        used = np.flatnonzero(self._counts[WALL][rows, : self._columns].sum(axis=0) > 0)
        last = np.minimum((self.first + used + 1) * self.stride - 1, self._highest)
        return HeatAnswer(
            ranks=shown,
            step=last.tolist(),
            time=[round(time, 3) for time in self._times[used].tolist()],
            own=self._cells(OWN, rows, used),
            data=self._cells(DATA, rows, used),
            wall=self._cells(WALL, rows, used),
        )

    def _cells(self, quantity: int, rows: list[int], columns: Array) -> list[list[float | None]]:
        sums, counts = self._sums[quantity], self._counts[quantity]
        return [_rounded(sums[row, columns], counts[row, columns]) for row in rows]

    def snapshot(self) -> HeatSnapshot:
        """For a checkpoint."""
        height, used = len(self.ranks), self._columns
        return HeatSnapshot(
            ranks=list(self.ranks),
            stride=self.stride,
            first=self.first,
            columns=used,
            highest=self._highest,
            sums=self._sums[:, :height, :used].tobytes(),
            counts=self._counts[:, :height, :used].tobytes(),
            times=self._times[:used].tobytes(),
        )

    def restore(self, kept: HeatSnapshot) -> None:
        """Take over what `snapshot` returned."""
        shape = (3, len(kept.ranks), kept.columns)
        self.ranks, self._rows = list(kept.ranks), {rank: row for row, rank in enumerate(kept.ranks)}
        self.stride, self.first, self._columns = kept.stride, kept.first, kept.columns
        self._highest = kept.highest
        self._sums = np.frombuffer(kept.sums, np.float32).reshape(shape).copy()
        self._counts = np.frombuffer(kept.counts, np.float32).reshape(shape).copy()
        self._times = np.frombuffer(kept.times, np.float64).copy()


def _lookup(rows: dict[int, int], ranks: Array) -> Array:
    known, inverse = np.unique(ranks, return_inverse=True)
    return np.array([rows[rank] for rank in known.tolist()], np.int64)[inverse]


def _rounded(sums: Array, counts: Array) -> list[float | None]:
    """Means with few digits, None where nothing is known; a whole row at once."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums.astype(np.float64) / counts
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.where(means > 0, means, 1.0))))
        values: list[Any] = (np.round(means * scale) / scale).tolist()
    return [value if math.isfinite(value) else None for value in values]


def thinned(heat: HeatAnswer, cells: int) -> HeatAnswer:
    """The same with neighbouring columns merged in pairs until there are at most so many cells of a quantity."""
    while len(heat.ranks) * len(heat.step) > cells and len(heat.step) > 1:
        heat = HeatAnswer(
            ranks=heat.ranks,
            step=[*heat.step[1::2], *heat.step[-1:]] if len(heat.step) % 2 else heat.step[1::2],
            time=[*heat.time[1::2], *heat.time[-1:]] if len(heat.time) % 2 else heat.time[1::2],
            own=[_paired(row) for row in heat.own],
            data=[_paired(row) for row in heat.data],
            wall=[_paired(row) for row in heat.wall],
        )
    return heat


def _paired(row: list[float | None]) -> list[float | None]:
    pairs = [row[at : at + 2] for at in range(0, len(row), 2)]
    known = [[value for value in pair if value is not None] for pair in pairs]
    return [float(f"{sum(values) / len(values):.{DIGITS}g}") if values else None for values in known]
