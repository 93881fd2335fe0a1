"""What is in memory and on its way to Parquet, and which Parquet files hold the rest: one truth for readers."""

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trackside.wire.columns import PointBatch, concatenate

CHUNK_ROWS = 65_536
"""Small batches are joined up to this many rows, so that a copy never takes long."""


class Snapshot(msgspec.Struct, frozen=True):
    """Points at one moment: hot rows and files, without gap or double."""

    chunks: tuple[PointBatch, ...]
    """Hot rows in the order they came."""
    files: tuple[Path, ...]
    metrics: dict[int, str]
    paths: dict[tuple[int, int], str]
    """(rank, generation) to path."""

    @property
    def hot(self) -> PointBatch:
        """All hot rows as one batch; a copy when there are several chunks."""
        return concatenate(self.chunks)

    @property
    def names(self) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        """Metric names by id, and paths by (rank, generation)."""
        return self.metrics, self.paths

    def first(self, rows: int) -> list[PointBatch]:
        """The oldest hot rows, as views."""
        return _split(self.chunks, rows)[0]


def rows_of(batch: PointBatch, rows: slice) -> PointBatch:
    """Some rows of a batch, as views."""
    return PointBatch(
        metric=batch.metric[rows],
        rank=batch.rank[rows],
        generation=batch.generation[rows],
        epoch=batch.epoch[rows],
        step=batch.step[rows],
        time=batch.time[rows],
        value=batch.value[rows],
    )


class PointTable(msgspec.Struct):
    """Hot rows and the names they need.

    Threads: any; the lock is held for list operations and copies of at most `CHUNK_ROWS` rows.
    """

    files: tuple[Path, ...] = ()
    total: int = 0
    """Rows in memory and in files."""
    _chunks: list[PointBatch] = msgspec.field(default_factory=list)
    _metrics: dict[int, str] = msgspec.field(default_factory=dict)
    _paths: dict[tuple[int, int], str] = msgspec.field(default_factory=dict)
    _hot_rows: int = 0
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    @property
    def hot_rows(self) -> int:
        """Rows in memory."""
        return self._hot_rows

    def append(self, batch: PointBatch) -> None:
        """Take new rows."""
        if not len(batch):
            return
        with self._lock:
            self._chunks.append(batch)
            self._join_small()
            self._hot_rows += len(batch)
            self.total += len(batch)

    def name_metric(self, metric: int, name: str) -> None:
        """A metric's name."""
        with self._lock:
            self._metrics[metric] = name

    def place_rank(self, rank: int, generation: int, path: str) -> None:
        """A rank's path."""
        with self._lock:
            self._paths[rank, generation] = path

    def snapshot(self) -> Snapshot:
        """All points of this moment."""
        with self._lock:
            return Snapshot(tuple(self._chunks), self.files, dict(self._metrics), dict(self._paths))

    def settle(self, rows: int, files: tuple[Path, ...]) -> None:
        """The oldest `rows` hot rows now lie in `files`."""
        with self._lock:
            self._chunks = _split(self._chunks, rows)[1]
            self._hot_rows -= rows
            self.files = files

    def replace_files(self, files: tuple[Path, ...], added_rows: int = 0) -> None:
        """Other files hold the same rows (after a merge), or files were found that hold more."""
        with self._lock:
            self.files = files
            self.total += added_rows

    def _join_small(self) -> None:
        """Keep chunks few: a chunk joins the one before it unless that is much larger."""
        chunks = self._chunks
        while len(chunks) > 1 and len(chunks[-1]) * 2 >= len(chunks[-2]):
            if len(chunks[-1]) + len(chunks[-2]) > CHUNK_ROWS:
                return
            last = chunks.pop()
            chunks[-1] = concatenate([chunks[-1], last])


def _split(chunks: Sequence[PointBatch], rows: int) -> tuple[list[PointBatch], list[PointBatch]]:
    """The oldest `rows` rows, and the rest (which holds on to nothing of them)."""
    before: list[PointBatch] = []
    for at, chunk in enumerate(chunks):
        if len(chunk) > rows:
            if not rows:
                return before, list(chunks[at:])
            rest = concatenate([rows_of(chunk, slice(rows, None)), rows_of(chunk, slice(0, 0))])
            return [*before, rows_of(chunk, slice(0, rows))], [rest, *chunks[at + 1 :]]
        before.append(chunk)
        rows -= len(chunk)
    return before, []
