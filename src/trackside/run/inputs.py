"""What happens to a run: past-tense inputs of the state machine. Ingest and the controller make them."""

from dataclasses import dataclass

from trackside.run.state import Settings
from trackside.wire import messages
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EventRecord


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of an input: the controller's two clocks."""

    wall: float
    """UTC epoch seconds."""
    mono: float
    """Monotonic seconds; the only clock durations are taken from."""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A process said hello (also after each reconnect)."""

    hello: messages.Hello


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A session's message, in order and without doubles; never Hello and never Points."""

    session: bytes
    message: messages.Message


@dataclass(frozen=True, slots=True)
class MetricAppeared:
    """The first definition of a metric in this run, or a user's word that changes it."""

    id: int
    name: str
    unit: str | None
    reduction: messages.Reduction


@dataclass(frozen=True, slots=True)
class PointsArrived:
    """Values of any ranks since the last batch; in order per rank."""

    batch: PointBatch


@dataclass(frozen=True, slots=True)
class FrameRefused:
    """A frame or a session was not taken: wrong run, wrong version, malformed, too many names."""

    kind: str
    text: str
    path: str = "root"


@dataclass(frozen=True, slots=True)
class LimitReached:
    """Something was left out, since there was too much of it."""

    kind: str
    text: str
    """For people, with how much it is by now."""
    count: int
    """How much more it is than last time."""


@dataclass(frozen=True, slots=True)
class LimitPassed:
    """For a while nothing of the kind has been left out."""

    kind: str


@dataclass(frozen=True, slots=True)
class SinkFailed:
    """A sink raised or blocked."""

    sink: str
    reason: str


@dataclass(frozen=True, slots=True)
class PageBound:
    """The web server listens."""

    host: str
    port: int
    url_line: str


@dataclass(frozen=True, slots=True)
class PageBindFailed:
    """The web server could not listen; the next wish tries again."""

    port: int
    reason: str


@dataclass(frozen=True, slots=True)
class StoreStalled:
    """The store has not persisted anything since this time."""

    since: float
    reason: str


@dataclass(frozen=True, slots=True)
class StoreRecovered:
    """The store persists again."""


@dataclass(frozen=True, slots=True)
class LauncherGone:
    """The process that started the controller has gone without saying so."""


@dataclass(frozen=True, slots=True)
class ProcessGone:
    """The controller, on the same machine, sees that a session's process has ended."""

    session: bytes
    exit_code: int | None = None
    signal: str | None = None
    """Which signal ended it; with the code unknown too: nobody could tell."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A signal, or a launcher, asked the controller to end."""

    reason: str
    """`SIGTERM`, `SIGINT`, `launcher`."""


@dataclass(frozen=True, slots=True)
class EventsRecalled:
    """A journal is about to be replayed after a restart of the controller; this is what the run's events were when it died."""

    records: list[EventRecord]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The journal has been replayed after a restart of the controller; what follows is live again."""

    downtime_seconds: float | None
    restarts: int = 1
    """How often that has happened in this run."""


@dataclass(frozen=True, slots=True)
class JobStartedAgain:
    """The whole job was started again, with another controller; no process of the last session is there any more."""

    session: int
    """How often that has happened; 1 for the first time."""
    generation: int
    """The first one of the new ranks."""
    settings: Settings
    heard_wall: float
    """When the last session was last heard of."""
    by: str | None = None
    """What started it, for people: `Slurm job 4711, restart 1`."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; sent several times a second."""

    may_restart: bool = False
    """Whether an agent of plain torchrun is there, which may start failed ranks again."""


Input = (
    SessionOpened
    | MessageArrived
    | MetricAppeared
    | PointsArrived
    | FrameRefused
    | LimitReached
    | LimitPassed
    | SinkFailed
    | PageBound
    | PageBindFailed
    | StoreStalled
    | StoreRecovered
    | LauncherGone
    | ProcessGone
    | StopAsked
    | EventsRecalled
    | Replayed
    | JobStartedAgain
    | Ticked
)
