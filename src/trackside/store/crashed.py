"""Points that only a journal holds: of a run that still writes, or that was killed."""

from pathlib import Path

import numpy as np

from trackside.errors import ProtocolError
from trackside.store.hot import PointTable
from trackside.store.journal import Damage, Frame, RollCall, read_file
from trackside.store.resume import Layout
from trackside.store.roll import RolledSession, SessionRoll
from trackside.wire import codec, messages
from trackside.wire.columns import PointBatch, unpack


class JournalTail:
    """Reads journal files into a table, as far as they have been written; `read` goes on where it stopped.

    Threads: one at a time.
    """

    def __init__(self, table: PointTable) -> None:
        self.damage: list[Damage] = []
        self.last_arrival: float | None = None
        self._table = table
        self._roll = SessionRoll()
        self._metrics: dict[str, int] = {}
        self._offsets: dict[Path, int] = {}

    def read(self, layout: Layout) -> None:
        """Take what the journal holds beyond the last call. Blocks: for the disk."""
        for path in layout.settled[-1:]:
            self._read_names(path)
        for path in layout.tail:
            for entry, end in read_file(path, self._offsets.get(path, 0)):
                if isinstance(entry, Damage) and entry.is_torn_tail:
                    break  # it may be a record that is just being written
                self._offsets[path] = end
                if isinstance(entry, Damage) and entry not in self.damage:
                    self.damage.append(entry)
                elif isinstance(entry, RollCall):
                    self._roll.load(entry.data)
                elif isinstance(entry, Frame):
                    self._take(entry)

    def _read_names(self, path: Path) -> None:
        """From a file whose points lie in a segment already."""
        for entry, end in read_file(path, self._offsets.get(path, 0)):
            self._offsets[path] = end
            if isinstance(entry, RollCall):
                self._roll.load(entry.data)
            elif isinstance(entry, Frame):
                self._roll.take(entry.session, entry.data)

    def _take(self, frame: Frame) -> None:
        self.last_arrival = frame.arrival
        envelope = self._roll.take(frame.session, frame.data)
        session = self._roll.sessions.get(frame.session)
        if envelope is None or envelope.kind != "points" or session is None or session.rank is None:
            return
        try:
            message = codec.decode_body(envelope)
            if isinstance(message, messages.Points):
                self._store(session, session.rank, message)
        except ProtocolError:
            return

    def _store(self, session: RolledSession, rank: int, message: messages.Points) -> None:
        columns = unpack(message)
        keys, places = np.unique(columns.series, return_inverse=True)
        ids = np.array([self._metric(session.names.get(key, f"unknown {key}")) for key in keys.tolist()], np.int32)
        count = len(columns.value)
        self._table.place_rank(rank, session.generation, session.path)
        self._table.append(
            PointBatch(
                metric=ids[places],
                rank=np.full(count, rank, np.int32),
                generation=np.full(count, session.generation, np.int32),
                epoch=columns.epoch,
                step=columns.step,
                time=columns.time,
                value=columns.value,
            )
        )

    def _metric(self, name: str) -> int:
        if name not in self._metrics:
            self._metrics[name] = len(self._metrics)
            self._table.name_metric(self._metrics[name], name)
        return self._metrics[name]
