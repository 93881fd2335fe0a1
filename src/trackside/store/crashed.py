"""Points that a crash left in the journal, read with the wire's own codec."""

from dataclasses import dataclass, field

import numpy as np

from trackside.errors import ProtocolError
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.store.journal import Damage, Frame
from trackside.store.resume import find_resumption
from trackside.wire import codec, messages
from trackside.wire.columns import PointBatch, unpack
from trackside.wire.ids import rank_path


@dataclass(slots=True)
class _Sender:
    identity: messages.Identity | None = None
    host: str = ""
    names: dict[int, str] = field(default_factory=dict)
    seq: int = 0


class JournalTail:
    """Reads what no segment holds yet into a table; damage is kept for the one who asks.

    Only frames after the last checkpoint are read; a session that began before it is known by its next hello only, so
    a live controller's own replay, which has the checkpoint, knows more.
    """

    def __init__(self, folder: RunFolder, table: PointTable) -> None:
        self.damage: list[Damage] = []
        self.last_arrival: float | None = None
        self._table = table
        self._senders: dict[bytes, _Sender] = {}
        self._metrics: dict[str, int] = {}
        for entry in find_resumption(folder, read_only=True).frames():
            if isinstance(entry, Damage):
                self.damage.append(entry)
            else:
                self._take(entry)

    def _take(self, frame: Frame) -> None:
        try:
            envelope = codec.open_envelope(frame.data)
            message = codec.decode_body(envelope)
        except ProtocolError:
            return
        self.last_arrival = frame.arrival
        sender = self._senders.setdefault(frame.session, _Sender())
        if isinstance(message, messages.Hello):
            sender.identity, sender.host = message.identity, message.host.host
        if envelope.seq and envelope.seq <= sender.seq:
            return
        sender.seq = max(sender.seq, envelope.seq)
        if isinstance(message, messages.Points) and sender.identity is not None:
            self._points(sender, sender.identity, message)

    def _points(self, sender: _Sender, identity: messages.Identity, message: messages.Points) -> None:
        sender.names.update({entry.id: entry.name for entry in message.defs})
        columns = unpack(message)
        ids = {key: self._metric(sender.names.get(key, f"unknown {key}")) for key in set(columns.series.tolist())}
        count = len(columns.value)
        self._table.place_rank(identity.rank, identity.generation, rank_path(sender.host, identity.rank))
        self._table.append(
            PointBatch(
                metric=np.array([ids[key] for key in columns.series.tolist()], np.int32),
                rank=np.full(count, identity.rank, np.int32),
                generation=np.full(count, identity.generation, np.int32),
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
