"""The latest steps of every rank, a row a rank and a cell a block of steps, so that ranks can be compared step by step."""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.run.diagnose.entries import Array, Entries

WIDTH = 256
"""Blocks a rank has; fewer where there are very many ranks."""
FEWEST_BLOCKS = 64
CELLS = 262_144
"""Ranks times blocks: 1 MB for each quantity and phase."""
MOST_NAMES = 24
"""Phases told apart; further ones of the user's own count as `rest`."""
RECENT = 64
"""Entries that decide how many steps a block has."""
REST = "rest"

COUNT, WALL, OWN, SAMPLES, CORE_WAIT, PHASES = 0, 1, 2, 3, 4, 5
"""Planes of the cells; the phases follow."""


class StepWindow:
    """Sums over blocks of steps, with the number of steps in each.

    A block is one step, or as many as an entry usually holds: short steps come several in one. A rank's cells are its
    own: ranks may be at different steps, come later, or begin again.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.ranks: list[int] = []
        """Rank of each row."""
        self.stride = 1
        """Steps of a block."""
        self._rows: Array = np.full(8, -1, np.int64)
        self._recent: Array = np.empty(0, np.int64)
        self._width = WIDTH
        self._cells: npt.NDArray[np.float32] = np.zeros((PHASES, 0, WIDTH), np.float32)
        self._block: npt.NDArray[np.int64] = np.full((0, WIDTH), -1, np.int64)
        self._ended: npt.NDArray[np.float64] = np.full((0, WIDTH), -np.inf)
        self._last: npt.NDArray[np.int64] = np.full(0, -1, np.int64)
        self._last_ended: npt.NDArray[np.float64] = np.full(0, -np.inf)
        self._first: npt.NDArray[np.int64] = np.full(0, -1, np.int64)

    # --- taking ------------------------------------------------------------------------------------------------------

    def begin(self, rank: int) -> None:
        """Another process is the rank now: what it did before is not compared any more."""
        row = self._row(rank)
        self._block[row], self._ended[row] = -1, -np.inf
        self._last[row], self._last_ended[row], self._first[row] = -1, -np.inf, -1

    def take(self, entries: Entries) -> None:
        """Add entries."""
        if not len(entries):
            return
        self._name(entries.phases)
        rows = self._rows_of(entries.rank)
        order = np.argsort(rows, kind="stable")
        entries, rows = entries.at(order), rows[order]
        rewound = self._rewinds(entries, rows)
        if rewound.any():
            keep = self._go_back(rows, rewound)
            entries, rows = entries.at(keep), rows[keep]
        before = self._previous(entries.step, rows, self._last)
        self._fit_stride(entries.step - before, before)
        fresh = self._first[rows] < 0
        self._first[rows[fresh][::-1]] = entries.step[fresh][::-1]
        np.maximum.at(self._last, rows, entries.step)
        np.maximum.at(self._last_ended, rows, entries.ended_at)
        self._write(entries, rows, entries.step - before == entries.count)

    def _rewinds(self, entries: Entries, rows: Array) -> Array:
        """Entries that are later in time and earlier in steps: the script counts anew."""
        before = self._previous(entries.step, rows, self._last)
        ended = self._previous(entries.ended_at, rows, self._last_ended)
        return np.asarray((entries.step < before) & (entries.ended_at > ended))

    def _previous(self, column: Array, rows: Array, kept: Array) -> Array:
        """Each entry's predecessor of the same row: in the batch, or what is kept of the row."""
        before = np.empty_like(column)
        before[1:] = column[:-1]
        first = np.r_[True, rows[1:] != rows[:-1]]
        before[first] = kept[rows[first]]
        return before

    def _go_back(self, rows: Array, rewound: Array) -> Array:
        """Forget the rows that count anew; return which entries stay."""
        keep = np.ones(len(rows), bool)
        for at in np.flatnonzero(rewound).tolist():
            row = int(rows[at])
            self.begin(self.ranks[row])
            keep[:at] &= rows[:at] != row
        return keep

    def _fit_stride(self, advance: Array, before: Array) -> None:
        """Choose the steps of a block by how far the latest entries advanced."""
        known = advance[(before >= 0) & (advance > 0)]
        if not len(known):
            return
        self._recent = np.r_[self._recent, known[-RECENT:] if len(known) <= RECENT else known[:: len(known) // RECENT]]
        self._recent = self._recent[-RECENT:]
        if len(self._recent) < 8:
            return
        wanted = 1 << (int(np.median(self._recent)) - 1).bit_length()
        if wanted > self.stride:
            self._lay_out(self._width, wanted)
        elif wanted * 4 <= self.stride:
            self._block[:], self.stride = -1, wanted

    def _write(self, entries: Entries, rows: Array, is_joined: Array) -> None:
        stride = self.stride
        block = entries.step // stride
        inside = np.minimum(entries.count, entries.step - block * stride + 1.0) / entries.count
        part = np.where(is_joined, inside, 1.0)
        values = self._values(entries)
        split = np.flatnonzero(part < 1.0)
        if len(split):
            self._put(rows[split], block[split] - 1, entries.ended_at[split], values[:, split] * (1.0 - part[split]))
        self._put(rows, block, entries.ended_at, values * part)

    def _values(self, entries: Entries) -> Array:
        values = np.full((PHASES + len(self.names), len(entries)), np.nan)
        values[COUNT], values[WALL] = entries.count, entries.wall
        values[OWN], values[SAMPLES], values[CORE_WAIT] = entries.own, entries.samples, entries.core_wait
        folded = np.zeros(len(entries))
        for at, name in enumerate(entries.phases):
            if name in self.names:
                values[PHASES + self.names.index(name)] = entries.seconds[:, at]
            else:
                folded += np.nan_to_num(entries.seconds[:, at])
        if folded.any() and REST in self.names:
            values[PHASES + self.names.index(REST)] += folded
        return values

    def _put(self, rows: Array, block: Array, ended: Array, values: Array) -> None:
        """Add values to their cells; what repeats an entry replaces it."""
        place = rows * self._width + block % self._width
        blocks, times = self._block.reshape(-1), self._ended.reshape(-1)
        cells = self._cells.reshape(len(self._cells), -1)
        is_new = blocks[place] < block
        repeats = (blocks[place] == block) & (times[place] == ended)
        is_amended = repeats & np.isclose(cells[COUNT, place], values[COUNT])
        fresh = place[is_new | is_amended]
        # two blocks of one batch may want the same cell: the later one has it
        np.maximum.at(blocks, place, block)
        cells[:, fresh], times[fresh] = 0.0, -np.inf
        counts = (blocks[place] == block) & (is_new | is_amended | ~repeats)
        place, values = place[counts], values[:, counts].astype(np.float32)
        for plane, added in zip(cells, values, strict=True):
            np.add.at(plane, place, added)
        np.maximum.at(times, place, ended[counts])

    # --- room --------------------------------------------------------------------------------------------------------

    def _name(self, phases: tuple[str, ...]) -> None:
        """Make a plane for every new phase; cells of before do not know it."""
        new = [name for name in phases if name not in self.names][: MOST_NAMES - len(self.names)]
        if new:
            self.names += new
            more = np.full((len(new), *self._cells.shape[1:]), np.nan, np.float32)
            self._cells = np.concatenate([self._cells, more])

    def _rows_of(self, ranks: Array) -> Array:
        highest = int(ranks.max())
        if highest >= len(self._rows):
            self._rows = np.r_[self._rows, np.full(max(highest + 1 - len(self._rows), len(self._rows)), -1, np.int64)]
        rows = self._rows[ranks]
        if (rows < 0).any():
            for rank in np.unique(ranks[rows < 0]).tolist():
                self._row(rank)
            rows = self._rows[ranks]
        return np.asarray(rows)

    def _row(self, rank: int) -> int:
        if rank >= len(self._rows):
            self._rows = np.r_[self._rows, np.full(max(rank + 1 - len(self._rows), len(self._rows)), -1, np.int64)]
        if self._rows[rank] < 0:
            self._rows[rank] = len(self.ranks)
            self.ranks.append(rank)
            if len(self.ranks) > len(self._last):
                self._grow()
        return int(self._rows[rank])

    def _grow(self) -> None:
        more = max(8, len(self._last))
        size = len(self._last) + more
        width = min(self._width, max(FEWEST_BLOCKS, CELLS // size))
        self._cells = np.concatenate([self._cells, np.zeros((len(self._cells), more, self._width), np.float32)], axis=1)
        self._block = np.concatenate([self._block, np.full((more, self._width), -1, np.int64)])
        self._ended = np.concatenate([self._ended, np.full((more, self._width), -np.inf)])
        self._last = np.r_[self._last, np.full(more, -1, np.int64)]
        self._last_ended = np.r_[self._last_ended, np.full(more, -np.inf)]
        self._first = np.r_[self._first, np.full(more, -1, np.int64)]
        if width < self._width:
            self._lay_out(width, self.stride)

    def _lay_out(self, width: int, stride: int) -> None:
        """Sort all cells into others: fewer, or of more steps."""
        rows, columns = np.nonzero(self._block >= 0)
        block = self._block[rows, columns] * self.stride // stride
        ended, values = self._ended[rows, columns], self._cells[:, rows, columns]
        count = len(self._last)
        self._cells = np.zeros((len(self._cells), count, width), np.float32)
        self._block = np.full((count, width), -1, np.int64)
        self._ended = np.full((count, width), -np.inf)
        self._width, self.stride = width, stride
        self._put(rows, block, ended, values)

    # --- looking -----------------------------------------------------------------------------------------------------

    def steps_of(self, rank: int) -> int:
        """The last step of a rank; -1 when it has none."""
        row = self._rows[rank] if rank < len(self._rows) else -1
        return -1 if row < 0 else int(self._last[row])

    def aligned(self, ranks: list[int], *, settle: int = 0) -> "Aligned | None":
        """The blocks that most of these ranks have behind them, oldest first; None when there are none.

        Args:
            ranks: whom to compare.
            settle: steps at the beginning of a rank's process that do not count.
        """
        rows = [int(self._rows[rank]) for rank in ranks if rank < len(self._rows) and self._rows[rank] >= 0]
        rows = [row for row in rows if self._last[row] >= 0]
        if not rows:
            return None
        at = np.array(rows)
        done = (self._last[at] + 1) // self.stride
        front = int(np.sort(done)[len(rows) // 4])
        ids = np.arange(max(0, front - self._width), front)
        if not len(ids):
            return None
        has = self._block[np.ix_(at, ids % self._width)] == ids
        has &= (ids < done[:, None]) & (ids * self.stride >= (self._first[at] + settle)[:, None])
        spoken = np.flatnonzero(has.any(axis=0))
        if not len(spoken):
            return None
        has, ids = has[:, spoken[0] :], ids[spoken[0] :]
        return Aligned(self, at, ids, has)

    def cells(self, plane: int, rows: Array, ids: Array) -> Array:
        """Sums of one plane: rows times blocks."""
        return np.asarray(self._cells[plane][np.ix_(rows, ids % self._width)])

    def ended(self, rows: Array, ids: Array) -> Array:
        """When the last step of each block ended; rows times blocks."""
        return np.asarray(self._ended[np.ix_(rows, ids % self._width)])


class Aligned(msgspec.Struct, frozen=True):
    """Blocks of some ranks side by side."""

    window: StepWindow
    rows: Array
    ids: Array
    """Block numbers, ascending."""
    has: Array
    """Whether the rank has done the block whole; rows times blocks."""

    @property
    def ranks(self) -> list[int]:
        """Rank of each row."""
        return [self.window.ranks[row] for row in self.rows.tolist()]

    def first_step(self, at: int) -> int:
        """First step of a block."""
        return int(self.ids[at]) * self.window.stride

    @property
    def last_step(self) -> int:
        """Last step of the last block."""
        return (int(self.ids[-1]) + 1) * self.window.stride - 1

    def latest(self, blocks: int) -> "Aligned":
        """The last so many blocks."""
        return Aligned(self.window, self.rows, self.ids[-blocks:], self.has[:, -blocks:])

    def only(self, rows: Any) -> "Aligned":
        """Some of the rows."""
        return Aligned(self.window, self.rows[rows], self.ids, self.has[rows])

    def plane(self, plane: int) -> Array:
        """Mean a step of one quantity, NaN where unknown."""
        steps = self.window.cells(COUNT, self.rows, self.ids)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.window.cells(plane, self.rows, self.ids) / steps
        return np.where(self.has & (steps > 0), mean, np.nan).astype(np.float64)

    def phase(self, name: str) -> Array:
        """Mean seconds a step in one phase, NaN where unknown."""
        if name not in self.window.names:
            return np.full(self.has.shape, np.nan)
        return self.plane(PHASES + self.window.names.index(name))

    def time_of(self, at: int) -> float | None:
        """When a block ended, by the rank that was last."""
        times = self.window.ended(self.rows, self.ids[at : at + 1])[self.has[:, at]]
        return float(times.max()) if len(times) else None
