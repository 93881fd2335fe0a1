"""Frames in, inputs of the run state out."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from trackside.errors import FrameTooLargeError, ProtocolError, VersionMismatchError
from trackside.ingest.counters import Counters
from trackside.ingest.gather import Gathering, SeriesMap
from trackside.ingest.generations import Generations, Worker
from trackside.ingest.names import DEFAULT_NAME_LIMIT, REFUSED, MetricName, MetricNames
from trackside.ingest.session import Session, open_session
from trackside.run.inputs import FrameRefused, Input, MessageArrived, MetricAppeared, PointsArrived, SessionOpened
from trackside.wire import codec, messages
from trackside.wire.codec import Envelope

SESSION_LIMIT = 65_536
BATCH_VALUES = 131_072
"""Points are handed on when this many have gathered, also within one drain."""
NAMED_REFUSALS = 100
"""Refusals that are said, each kind once a session; the rest are counted."""
ASKED_AT_ONCE = 64
"""Sessions that begin to send again at the same time, once there is room."""
_POINTS_FIRST = (messages.EpochReport, messages.Goodbye, messages.JobEnded, messages.WorkerExited)

Keep = Callable[[bytes, int, float, bytes], None]


class HasRoom(Protocol):
    """Whether a frame can be kept now. `is_bulk`: it holds what ranks measured; that waits first."""

    def __call__(self, *, is_bulk: bool) -> bool: ...


Send = Callable[[bytes, messages.Downward], None]
AskAgain = Callable[[bytes], None]


class TableSnapshot(msgspec.Struct):
    """All that a restarted controller needs to go on reading; part of a checkpoint."""

    names: list[MetricName] = []
    sessions: dict[str, Session] = {}
    """By routing id in hex."""
    counters: Counters = msgspec.field(default_factory=Counters)
    generations: Generations = msgspec.field(default_factory=Generations)


class FrameReader:
    """The session table and what it makes of frames.

    Args:
        run: id of this controller's run; a session of another one is refused.
        keep: called with (routing id, sequence, arrival time, frame) for each frame that must survive, before it is used.
        send: called with (routing id, message) to answer a peer directly.
        ask_again: called with the routing id of a session that must send again what is not durable.
        has_room: whether what comes can be kept; what cannot stays with its sender, and is asked for when there is room.
        name_limit: metric names the run may have.
    """

    def __init__(
        self,
        run: str,
        keep: Keep,
        send: Send,
        ask_again: AskAgain,
        has_room: HasRoom,
        name_limit: int = DEFAULT_NAME_LIMIT,
    ) -> None:
        self.counters = Counters()
        self._run = run
        self._keep = keep
        self._send = send
        self._ask_again = ask_again
        self._has_room = has_room
        self._held: deque[bytes] = deque()
        """Sessions that keep what there was no room for."""
        self._names = MetricNames(name_limit)
        self._generations = Generations()
        self._sessions: dict[bytes, Session] = {}
        self._series = SeriesMap()
        self._gathering = Gathering(self._series)
        self._inputs: list[Input] = []
        self._named: set[tuple[bytes, str]] = set()
        self._is_closed = False

    # --- frames -------------------------------------------------------------------------------------------------------

    def feed(
        self, session: bytes, frame: bytes, arrived_at: float, *, replaying: bool = False, is_left: bool = False
    ) -> None:
        """Read one frame. Never raises because of what is in it.

        Args:
            session: routing id of the peer.
            frame: as it came.
            arrived_at: UTC epoch seconds.
            replaying: the frame comes from the journal: it is not kept again, and gaps in it are true.
            is_left: its session has ended and left it in a file: a hello of one that is known opens nothing, and nobody
                would send it again: whoever read it has waited for room.
        """
        if self._is_closed:
            return
        try:
            envelope = codec.open_envelope(frame)
            if envelope.kind == "hello" and is_left and session in self._sessions:
                self._sessions[session].greet()
            elif envelope.kind == "hello":
                self._greet(session, envelope, frame, arrived_at, replaying, is_left)
            else:
                self._read(session, envelope, frame, arrived_at, replaying, is_left)
        except VersionMismatchError as error:
            self._refuse(session, "version", str(error), answer=True)
        except (ProtocolError, FrameTooLargeError) as error:
            self.counters.frames_malformed += 1
            self._say(session, "malformed frame", str(error))

    def begin_session(self, generation: int, requeues: int) -> None:
        """The job was started, perhaps again.

        Args:
            generation: the first one of its ranks.
            requeues: what Slurm counts by now.
        """
        self._generations.begin_session(generation, requeues)

    def close(self) -> None:
        """Read nothing more: it is neither kept nor acknowledged, so that its sender keeps it."""
        self._is_closed = True

    @property
    def values_waiting(self) -> int:
        """Values that `take` would return."""
        return len(self._gathering)

    def take(self, *, with_values: bool = True) -> list[Input]:
        """Return the inputs made since the last call, points last. `with_values`: else points go on gathering."""
        if with_values:
            self._flush()
        inputs, self._inputs = self._inputs, []
        return inputs

    def replayed(self) -> None:
        """The journal has been read: every session must say hello again before it is heard."""
        for known in self._sessions.values():
            known.live = False
            known.expect()

    def malformed(self, session: bytes, reason: str) -> None:
        """Count something that was not even a frame."""
        self.counters.frames_malformed += 1
        self._say(session, "malformed frame", reason)

    def refused_peer(self, address: str) -> None:
        """Count a connection that was not let in, and name its address once."""
        self.counters.peers_refused += 1
        self._say(
            address.encode(),
            "wrong key",
            f"a process at {address} has not the key of this run and was not let in; "
            "if it belongs to the job, give it the TRACKSIDE_CONTROLLER of this run",
        )

    def failed_handshake(self) -> None:
        """Count a connection that ended before it could show a key."""
        self.counters.handshakes_failed += 1

    def _greet(
        self, session: bytes, envelope: Envelope, frame: bytes, arrived_at: float, replaying: bool, is_left: bool
    ) -> None:
        hello = codec.decode_body(envelope)
        if not isinstance(hello, messages.Hello) or hello.session != session:
            raise ProtocolError("a hello whose session is not the link's own")
        if hello.run is not None and hello.run != self._run:
            reason = (
                f"this controller serves run {self._run}, the address names run {hello.run}; "
                "take TRACKSIDE_CONTROLLER from the running job"
            )
            self._refuse(session, "other run", reason, answer=True)
            return
        known = self._sessions.get(session)
        if known is None and len(self._sessions) >= SESSION_LIMIT:
            self._refuse(session, "too many sessions", f"{SESSION_LIMIT} sessions have been seen", answer=True)
            return
        hello, frame = self._place(hello, known, envelope, frame, replaying=replaying, is_left=is_left)
        if not replaying:
            if not self._has_room(is_bulk=False):
                return  # it says hello again
            self._keep(session, 0, arrived_at, frame)
        if known is None:
            self._sessions[session] = open_session(hello)
        else:
            known.greet()
            known.take_identity(hello)
        self.counters.frames += 1
        self._inputs.append(SessionOpened(hello))

    def _place(
        self,
        hello: messages.Hello,
        known: Session | None,
        envelope: Envelope,
        frame: bytes,
        *,
        replaying: bool,
        is_left: bool,
    ) -> tuple[messages.Hello, bytes]:
        """The hello, and its frame, with the generation that it means in this run. In the journal it stands like that."""
        if replaying and not is_left:
            self._generations.learn(hello)
            return hello, frame
        if known is not None and hello.identity is not None and known.rank == hello.identity.rank:
            placed = self._generations.keep(hello, known.generation)
        else:
            placed = self._generations.place(hello, is_left=is_left)
        return placed, frame if placed is hello else codec.encode(placed, envelope.seq)

    def _read(
        self, session: bytes, envelope: Envelope, frame: bytes, arrived_at: float, replaying: bool, is_left: bool
    ) -> None:
        known = self._sessions.get(session)
        if known is None or not (known.live or replaying):
            self.counters.frames_before_hello += 1
            return
        if envelope.seq:
            is_bulk = known.rank >= 0 or envelope.kind == "left"
            if not self._is_next(session, known, envelope.seq, arrived_at, replaying):
                return
            if not (replaying or is_left or self._has_room(is_bulk=is_bulk)):
                self._hold(session, known, envelope.seq)
                return
        message = codec.decode_body(envelope)
        if message is None:
            self.counters.frames_unknown_kind += 1
        if isinstance(message, Worker) and not replaying:
            placed = self._generations.place_message(message)
            message, frame = placed, frame if placed is message else codec.encode(placed, envelope.seq)
        if isinstance(message, messages.Goodbye) and message.clean:
            self._generations.note_end(session)
        if envelope.seq:
            if not replaying:
                self._keep(session, envelope.seq, arrived_at, frame)
                self.counters.frames_skipped += envelope.seq - known.highest_seq - 1
            known.expect()
            known.highest_seq = envelope.seq
        self.counters.frames += 1
        self._hand_on(session, known, message, arrived_at, replaying)

    def _hand_on(
        self, session: bytes, known: Session, message: messages.Message | None, arrived_at: float, replaying: bool
    ) -> None:
        if isinstance(message, messages.Left):
            self._take_left(message, arrived_at, replaying)
        elif isinstance(message, messages.Points):
            self._take_points(session, known, message)
        elif message is not None:
            if isinstance(message, _POINTS_FIRST) and self._gathering.holds(session):
                self._flush()
            self._inputs.append(MessageArrived(session, message))

    def _take_left(self, left: messages.Left, arrived_at: float, replaying: bool) -> None:
        """What another process found of a session that has ended."""
        for frame in left.frames:
            if codec.open_envelope(frame).kind == "left":
                raise ProtocolError("what a session left, within what a session left")
            self.feed(left.session, frame, arrived_at, replaying=replaying, is_left=True)

    def _is_next(self, session: bytes, known: Session, seq: int, arrived_at: float, replaying: bool) -> bool:
        """Whether a sequenced frame is to be taken now.

        After a lost connection, frames that ZeroMQ still held arrive before those the kernel lost. Taking them would make
        the lost ones look known when they are sent again, so what leaves a gap is asked for again first; a gap that stays
        is true (the sender gave those frames up) and is counted.
        """
        if seq <= known.highest_seq:
            self.counters.frames_duplicate += 1
            known.greeted = False
            return False
        is_missing = seq != known.highest_seq + 1 and seq != known.due
        if not is_missing or known.greeted or replaying:
            return True
        if known.is_held:
            self.counters.frames_ahead += 1
            return False
        if known.gap_since is None:
            known.gap_since = arrived_at
            self._ask_again(session)
        if arrived_at - known.gap_since < known.patience_s:
            self.counters.frames_ahead += 1
            return False
        return True

    def _hold(self, session: bytes, known: Session, seq: int) -> None:
        """There is no room: this frame, and what follows it, stay with their sender until they are asked for."""
        self.counters.frames_held += 1
        if not known.is_held:
            self._held.append(session)
        known.hold(seq)

    def ask_for_held(self, now: float) -> None:
        """Ask for what there was no room for, some sessions at a time; to be called now and then."""
        for _ in range(min(ASKED_AT_ONCE, len(self._held))):
            if not self._has_room(is_bulk=True):
                return
            session = self._held.popleft()
            known = self._sessions[session]
            if known.is_held:  # else it has said hello meanwhile, and sends again anyway
                known.is_held, known.gap_since = False, now
                self._ask_again(session)

    @property
    def has_room(self) -> bool:
        """Whether values can be taken."""
        return self._has_room(is_bulk=True)

    # --- points -------------------------------------------------------------------------------------------------------

    def _take_points(self, session: bytes, known: Session, points: messages.Points) -> None:
        for definition in points.defs:
            self._define(session, known, definition)
        self.counters.values += self._gathering.add(session, known.rank, known.generation, points)
        if len(self._gathering) >= BATCH_VALUES:
            self._flush()

    def _define(self, session: bytes, known: Session, definition: messages.SeriesDef) -> None:
        metric, is_news = self._names.define(definition)
        self._series.set(session, definition.id, metric)
        known.series[definition.id] = metric
        if is_news:
            entry = self._names.entry(metric)
            self._inputs.append(MetricAppeared(metric, entry.name, entry.unit, entry.reduction))
        elif metric == REFUSED:
            self._say(
                b"",
                "too many names",
                f"{known.path} logs {definition.name[:80]!r}, which is not kept: {self._names.why_refused(definition.name)}; "
                "values of such names are counted; put what changes into the step, not the name",
            )

    def _flush(self) -> None:
        if not len(self._gathering):
            return
        batch, refused, undefined = self._gathering.take()
        self.counters.values_over_name_limit += refused
        self.counters.values_without_definition += undefined
        self.counters.values -= refused + undefined
        if undefined:
            self._say(
                b"",
                "undefined series",
                f"{undefined} values came for a series that was never named; install the same trackside everywhere",
            )
        if len(batch):
            self._inputs.append(PointsArrived(batch))

    # --- refusals -----------------------------------------------------------------------------------------------------

    def _refuse(self, session: bytes, kind: str, reason: str, *, answer: bool) -> None:
        self.counters.frames_refused += 1
        if self._say(session, kind, reason) and answer:
            self._send(session, messages.Refused(reason=reason))

    def _say(self, session: bytes, kind: str, text: str) -> bool:
        """Make a refusal visible, each kind once a session; return whether it was said now."""
        if (session, kind) in self._named or len(self._named) >= NAMED_REFUSALS:
            return False
        self._named.add((session, kind))
        self._inputs.append(FrameRefused(kind=kind, text=text))
        return True

    # --- answers ------------------------------------------------------------------------------------------------------

    def highest_seq(self, session: bytes) -> int:
        """Highest sequence taken of a session; 0 for an unknown one."""
        known = self._sessions.get(session)
        return 0 if known is None else known.highest_seq

    def highest(self) -> dict[bytes, int]:
        """Highest sequence taken of every session."""
        return {session: known.highest_seq for session, known in self._sessions.items()}

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def snapshot(self) -> TableSnapshot:
        """Return the table; inputs that were not taken yet are not part of it."""
        return TableSnapshot(
            names=self._names.snapshot(),
            sessions={session.hex(): known for session, known in self._sessions.items()},
            counters=self.counters,
            generations=self._generations,
        )

    def restore(self, snapshot: TableSnapshot) -> None:
        """Take over what `snapshot` returned, in a reader that has read nothing yet."""
        self.counters, self._generations = snapshot.counters, snapshot.generations
        self._names.restore(snapshot.names)
        self._sessions = {bytes.fromhex(session): known for session, known in snapshot.sessions.items()}
        self.replayed()
        for session, known in self._sessions.items():
            for series, metric in known.series.items():
                self._series.set(session, series, metric)
