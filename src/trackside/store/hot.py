"""What is in memory and on its way to Parquet, and which Parquet files hold the rest: one truth for readers."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from trackside.wire.columns import PointBatch, concatenate


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Points at one moment: hot rows and files, without gap or double."""

    hot: PointBatch
    files: tuple[Path, ...]
    metrics: dict[int, str]
    paths: dict[tuple[int, int], str]
    """(rank, generation) to path."""

    def first(self, rows: int) -> "Snapshot":
        """The same with the oldest `rows` hot rows only."""
        return Snapshot(rows_of(self.hot, slice(0, rows)), self.files, self.metrics, self.paths)


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


@dataclass(slots=True)
class PointTable:
    """Hot rows and the names they need.

    Threads: any; the lock is held for list operations only.
    """

    files: tuple[Path, ...] = ()
    total: int = 0
    _chunks: list[PointBatch] = field(default_factory=list)
    _metrics: dict[int, str] = field(default_factory=dict)
    _paths: dict[tuple[int, int], str] = field(default_factory=dict)
    _hot_rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def hot_rows(self) -> int:
        """Rows in memory."""
        return self._hot_rows

    def append(self, batch: PointBatch) -> None:
        """Take new rows."""
        with self._lock:
            self._chunks.append(batch)
            self._hot_rows += len(batch)
            self.total += len(batch)
            if len(self._chunks) > 512:
                self._chunks = [concatenate(self._chunks)]

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
            hot = concatenate(self._chunks)
            if len(self._chunks) > 1:
                self._chunks = [hot]
            return Snapshot(hot, self.files, dict(self._metrics), dict(self._paths))

    def settle(self, rows: int, files: tuple[Path, ...]) -> None:
        """The oldest `rows` hot rows now lie in `files`."""
        with self._lock:
            kept = rows_of(concatenate(self._chunks), slice(rows, None))
            self._chunks = [kept] if len(kept) else []
            self._hot_rows -= rows
            self.files = files
