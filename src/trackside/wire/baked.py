"""What a report holds inside: the page's data as one JSON document."""

from typing import Any

import msgspec

from trackside.wire.documents import (
    Document,
    EpochRecord,
    EventRecord,
    HeatAnswer,
    MetricEntry,
    Number,
    RankEntry,
    ResourceRecord,
    RunDocument,
)


class BakedSeries(Document, frozen=True, kw_only=True):
    """One metric of one path inside a report, columns as in `SeriesAnswer` with all four x axes."""

    metric: str
    path: str
    step: list[int]
    epoch: list[int | None]
    time: list[float]
    mean: list[Number]
    min: list[Number]
    max: list[Number]
    count: list[int]
    total_points: int
    reduction: str
    non_finite: list[tuple[Number, str]] = msgspec.field(default_factory=list)


class Baked(Document, frozen=True, kw_only=True):
    """All a report holds, as JSON in `<script type="application/json" id="trackside-data">`."""

    written_at: float
    run: RunDocument
    ranks: list[RankEntry]
    metrics: list[MetricEntry]
    epochs: list[EpochRecord]
    events: list[EventRecord]
    resources: list[ResourceRecord]
    series: list[BakedSeries]
    graph: Any
    """A `GraphDocument`, or null."""
    svg: str | None
    heat: HeatAnswer | None = None
