"""The two seams between the controller and what shows a run."""

from typing import Protocol

from trackside.run.resources import MOST_RECORDS
from trackside.wire.baked import BakedSeries
from trackside.wire.columns import PointBatch
from trackside.wire.documents import (
    MOST_LATEST_VALUES,
    EpochRecord,
    EventRecord,
    GraphDocument,
    HeatAnswer,
    MetricEntry,
    RankEntry,
    ResourceRecord,
    RunDocument,
    SeriesAnswer,
    XAxis,
)
from trackside.wire.ids import ROOT_PATH


class RunSource(Protocol):
    """A run to read from, live or from its folder. What is not `async` answers from memory at once."""

    def run(self) -> RunDocument: ...
    def ranks(self, path: str = ROOT_PATH) -> list[RankEntry]:
        """Ranks at or below `path`, by number; what it costs does not grow with the ranks elsewhere."""
        ...

    def metrics(self) -> list[MetricEntry]: ...
    def epochs(self) -> list[EpochRecord]: ...
    def resources(self, path: str, most: int = MOST_RECORDS) -> list[ResourceRecord]:
        """Samples at or below `path`, oldest first; thinned evenly when there are more than `most`."""
        ...

    def events(self) -> list[EventRecord]: ...
    def heat(self, path: str) -> HeatAnswer:
        """Step times of the ranks at or below `path` over the whole run, in a bounded number of cells."""
        ...

    def graph(self) -> GraphDocument | None: ...
    def svg(self) -> str | None:
        """Already sanitised."""
        ...

    async def last_values(self, most: int = MOST_LATEST_VALUES) -> list[tuple[str, int, str, float]]:
        """(metric, rank, host, latest value); metrics that would make them more than `most` are left out whole."""
        ...

    def counters(self) -> dict[str, int]: ...

    async def series(
        self, metric: str, path: str, x: XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesAnswer:
        """Blocks: never; the query runs in the read pool.

        Raises:
            KeyError: no such metric, or no such path.
        """
        ...

    async def baked_series(self, points: int) -> list[BakedSeries]:
        """Every metric at the root, and at each rank while the whole stays bounded, for the report."""
        ...


class Sink(Protocol):
    """One consumer of a run."""

    name: str

    def register_port(self, port: int | None) -> None: ...
    def set_graph(self, svg: str | None, graph: object | None, label: str | None, hash: str | None) -> None: ...
    def set_metadata(self, text: str) -> None: ...
    def set_hardware(self, text: str) -> None: ...
    def push_resources(self, record: ResourceRecord) -> None: ...
    def push_window(self, batch: PointBatch) -> None:
        """New values, within a fraction of a second of their arrival."""
        ...

    def push_epoch(self, record: EpochRecord) -> None: ...
    def push_event(self, record: EventRecord, is_new: bool) -> None: ...
    def push_run(self) -> None:
        """The run document or some rank entries changed."""
        ...

    async def shut_down(self) -> None:
        """The run is over; idempotent, within seconds."""
        ...
