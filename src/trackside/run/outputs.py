"""What the state machine asks for: imperative instructions, executed by the controller's dispatch in order."""

import msgspec

from trackside.wire import documents, messages
from trackside.wire.columns import PointBatch


class Reply(msgspec.Struct, frozen=True):
    """Send a message to one session."""

    session: bytes
    message: messages.Downward


class RegisterPort(msgspec.Struct, frozen=True):
    """A wish for a page arrived and nothing is bound yet; None: the default port."""

    port: int | None


class DefineRank(msgspec.Struct, frozen=True):
    """A rank's place became known, or changed with a generation; the store writes points under this path."""

    rank: int
    generation: int
    path: str


class DefineMetric(msgspec.Struct, frozen=True):
    """A metric exists."""

    id: int
    name: str
    reduction: messages.Reduction


class PublishPoints(msgspec.Struct, frozen=True):
    """New values, for charts and the store."""

    batch: PointBatch


class PublishRun(msgspec.Struct, frozen=True):
    """The run document or a rank entry has changed; sinks read the state when they next send."""


class PublishEpoch(msgspec.Struct, frozen=True):
    """An epoch was aggregated or amended."""

    record: documents.EpochRecord


class PublishEvent(msgspec.Struct, frozen=True):
    """An event is new, or its count or activity changed (same id)."""

    record: documents.EventRecord
    is_new: bool


class PublishResources(msgspec.Struct, frozen=True):
    """A resource sample, flattened."""

    record: documents.ResourceRecord


class SetGraph(msgspec.Struct, frozen=True):
    """SVG, graph, label or hash of the run were set."""

    svg: str | None
    graph: object | None
    label: str | None
    hash: str | None


class SetMetadata(msgspec.Struct, frozen=True):
    """The run's metadata changed; JSON text."""

    text: str


class SetHardware(msgspec.Struct, frozen=True):
    """The run's hardware line was rebuilt."""

    text: str


class PrintLine(msgspec.Struct, frozen=True):
    """Print one line on the job's terminal."""

    line: str


class CompleteRun(msgspec.Struct, frozen=True):
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
