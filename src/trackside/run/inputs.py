"""What happens to a run: past-tense inputs of the state machine. Ingest and the controller make them."""

import msgspec

from trackside.run.state import Settings
from trackside.wire import messages
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EventRecord


class Moment(msgspec.Struct, frozen=True):
    """The time of an input: the controller's two clocks."""

    wall: float
    """UTC epoch seconds."""
    mono: float
    """Monotonic seconds; the only clock durations are taken from."""


class SessionOpened(msgspec.Struct, frozen=True):
    """A process said hello (also after each reconnect)."""

    hello: messages.Hello


class MessageArrived(msgspec.Struct, frozen=True):
    """A session's message, in order and without doubles; never Hello and never Points."""

    session: bytes
    message: messages.Message


class MetricAppeared(msgspec.Struct, frozen=True):
    """The first definition of a metric in this run, or a user's word that changes it."""

    id: int
    name: str
    unit: str | None
    reduction: messages.Reduction


class PointsArrived(msgspec.Struct, frozen=True):
    """Values of any ranks since the last batch; in order per rank."""

    batch: PointBatch


class FrameRefused(msgspec.Struct, frozen=True):
    """A frame or a session was not taken: wrong run, wrong version, malformed, too many names."""

    kind: str
    text: str
    path: str = "root"


class LimitReached(msgspec.Struct, frozen=True):
    """Something was left out, since there was too much of it."""

    kind: str
    text: str
    """For people, with how much it is by now."""
    count: int
    """How much more it is than last time."""


class LimitPassed(msgspec.Struct, frozen=True):
    """For a while nothing of the kind has been left out."""

    kind: str


class SinkFailed(msgspec.Struct, frozen=True):
    """A sink raised or blocked."""

    sink: str
    reason: str


class PageBound(msgspec.Struct, frozen=True):
    """The web server listens."""

    host: str
    port: int
    url_line: str


class PageBindFailed(msgspec.Struct, frozen=True):
    """The web server could not listen; the next wish tries again."""

    port: int
    reason: str


class StoreStalled(msgspec.Struct, frozen=True):
    """The store has not persisted anything since this time."""

    since: float
    reason: str


class StoreRecovered(msgspec.Struct, frozen=True):
    """The store persists again."""


class LauncherGone(msgspec.Struct, frozen=True):
    """The process that started the controller has gone without saying so."""


class ProcessGone(msgspec.Struct, frozen=True):
    """The controller, on the same machine, sees that a session's process has ended."""

    session: bytes
    exit_code: int | None = None
    signal: str | None = None
    """Which signal ended it; with the code unknown too: nobody could tell."""


class StopAsked(msgspec.Struct, frozen=True):
    """A signal, or a launcher, asked the controller to end."""

    reason: str
    """`SIGTERM`, `SIGINT`, `launcher`."""


class EventsRecalled(msgspec.Struct, frozen=True):
    """A journal is about to be replayed after a restart of the controller; this is what the run's events were when it died."""

    records: list[EventRecord]


class Replayed(msgspec.Struct, frozen=True):
    """The journal has been replayed after a restart of the controller; what follows is live again."""

    downtime_seconds: float | None
    restarts: int = 1
    """How often that has happened in this run."""


class JobStartedAgain(msgspec.Struct, frozen=True):
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


class Ticked(msgspec.Struct, frozen=True):
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
