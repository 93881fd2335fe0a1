"""Who the sessions of a journal are and what their series are called, so that a journal can be read without its start."""

import msgspec

from trackside.errors import ProtocolError
from trackside.wire import codec, messages
from trackside.wire.ids import MAX_SERIES, is_possible_rank, rank_path


class RolledSession(msgspec.Struct, kw_only=True):
    """One session."""

    rank: int | None = None
    """None for an agent."""
    generation: int = 0
    path: str = ""
    names: dict[int, str] = {}
    """Series id of the session to metric name."""
    seq: int = 0
    """Highest sequence so far."""


class _Definitions(msgspec.Struct):
    """What is read of a points message; its columns are skipped."""

    defs: list[messages.SeriesDef] = []


_definitions = msgspec.msgpack.Decoder(_Definitions)
_sessions = msgspec.msgpack.Decoder(dict[str, RolledSession])


class SessionRoll:
    """Sessions as a journal's frames make them known.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self.sessions: dict[bytes, RolledSession] = {}

    def take(self, session: bytes, data: bytes) -> codec.Envelope | None:
        """Note what a frame says of its session; return its envelope unless it is none, or came before."""
        try:
            envelope = codec.open_envelope(data)
            if envelope.kind == "hello":
                self._greet(session, envelope)
                return envelope
            known = self.sessions.get(session)
            if known is None or (envelope.seq and envelope.seq <= known.seq):
                return None
            if envelope.kind == "points":
                defs = _definitions.decode(envelope.body).defs
                known.names.update({entry.id: entry.name for entry in defs if 0 <= entry.id < MAX_SERIES})
        except (ProtocolError, msgspec.DecodeError, RecursionError):
            return None
        known.seq = max(known.seq, envelope.seq)
        return envelope

    def place(self, paths: dict[tuple[int, int], str]) -> None:
        """Take over the paths that the run state gave its ranks."""
        for session in self.sessions.values():
            if session.rank is not None:
                session.path = paths.get((session.rank, session.generation), session.path)

    def pack(self) -> bytes:
        """The roll as the payload of a journal record."""
        return msgspec.msgpack.encode({session.hex(): known for session, known in self.sessions.items()})

    def load(self, data: bytes) -> None:
        """Take in a packed roll; what is known already and further on stays."""
        try:
            loaded = _sessions.decode(data)
        except (msgspec.DecodeError, ValueError):
            return
        for key, session in loaded.items():
            known = self.sessions.get(bytes.fromhex(key))
            if known is None or known.seq < session.seq:
                self.sessions[bytes.fromhex(key)] = session

    def _greet(self, session: bytes, envelope: codec.Envelope) -> None:
        hello = codec.decode_body(envelope)
        if not isinstance(hello, messages.Hello):
            return
        known = self.sessions.setdefault(session, RolledSession())
        told = hello.identity
        if told is None or known.rank is not None:
            return
        if is_possible_rank(told.rank, told.world_size, told.generation):
            known.rank, known.generation = told.rank, told.generation
            known.path = rank_path(hello.host.host, told.rank)
