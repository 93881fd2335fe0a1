"""What the state machine asks for: imperative instructions, executed by the controller's dispatch in order."""

from dataclasses import dataclass

from trackside.wire import documents, messages
from trackside.wire.columns import PointBatch


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a message to one session."""

    session: bytes
    message: messages.Downward


@dataclass(frozen=True, slots=True)
class RegisterPort:
    """A wish for a page arrived and nothing is bound yet; None: the default port."""

    port: int | None


@dataclass(frozen=True, slots=True)
class DefineRank:
    """A rank's place became known, or changed with a generation; the store writes points under this path."""

    rank: int
    generation: int
    path: str


@dataclass(frozen=True, slots=True)
class DefineMetric:
    """A metric exists."""

    id: int
    name: str
    reduction: messages.Reduction


@dataclass(frozen=True, slots=True)
class PublishPoints:
    """New values, for charts and the store."""

    batch: PointBatch


@dataclass(frozen=True, slots=True)
class PublishRun:
    """The run document or a rank entry has changed; sinks read the state when they next send."""


@dataclass(frozen=True, slots=True)
class PublishEpoch:
    """An epoch was aggregated or amended."""

    record: documents.EpochRecord


@dataclass(frozen=True, slots=True)
class PublishEvent:
    """An event is new, or its count or activity changed (same id)."""

    record: documents.EventRecord
    is_new: bool


@dataclass(frozen=True, slots=True)
class PublishResources:
    """A resource sample, flattened."""

    record: documents.ResourceRecord


@dataclass(frozen=True, slots=True)
class SetGraph:
    """SVG, graph, label or hash of the run were set."""

    svg: str | None
    graph: object | None
    label: str | None
    hash: str | None


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """The run's metadata changed; JSON text."""

    text: str


@dataclass(frozen=True, slots=True)
class SetHardware:
    """The run's hardware line was rebuilt."""

    text: str


@dataclass(frozen=True, slots=True)
class PrintLine:
    """Print one line on the job's terminal."""

    line: str


@dataclass(frozen=True, slots=True)
class CompleteRun:
    """The run has ended: flush, tell the page, write the report, free the port, leave, in this order."""


Instruction = (
    Reply
    | RegisterPort
    | DefineRank
    | DefineMetric
    | PublishPoints
    | PublishRun
    | PublishEpoch
    | PublishEvent
    | PublishResources
    | SetGraph
    | SetMetadata
    | SetHardware
    | PrintLine
    | CompleteRun
)
