"""The running run as something to read from."""

from collections.abc import Callable

from trackside.run.inputs import Moment
from trackside.run.machine import RunMachine
from trackside.run.resources import MOST_RECORDS
from trackside.run.takeover import superseded
from trackside.store import SeriesQuery, SeriesReader, plan_baked
from trackside.wire.baked import BakedSeries
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
from trackside.wire.messages import Reduction


class LiveSource:
    """Reads the state machine and the store.

    Args:
        machine: of the run.
        reader: answers chart queries.
        now: the present moment.
        count: returns the counters of all parts.

    Threads: the event loop's only.
    """

    def __init__(
        self,
        machine: RunMachine,
        reader: SeriesReader,
        now: Callable[[], Moment],
        count: Callable[[], dict[str, int]],
    ) -> None:
        self._machine = machine
        self._reader = reader
        self._now = now
        self._count = count
        self._svg: str | None = None
        self._reductions: dict[str, Reduction] = {}

    def define_metric(self, name: str, reduction: Reduction) -> None:
        """A metric exists."""
        self._reductions[name] = reduction

    def run(self) -> RunDocument:
        return self._machine.run_document(self._now())

    def ranks(self, path: str = ROOT_PATH) -> list[RankEntry]:
        return self._machine.rank_entries(self._now(), path)

    def metrics(self) -> list[MetricEntry]:
        return self._machine.metric_entries()

    def epochs(self) -> list[EpochRecord]:
        return self._machine.epoch_records()

    def resources(self, path: str, most: int = MOST_RECORDS) -> list[ResourceRecord]:
        return self._machine.resource_records(path, most)

    def events(self) -> list[EventRecord]:
        return self._machine.event_records()

    def heat(self, path: str) -> HeatAnswer:
        return self._machine.heat(path)

    def graph(self) -> GraphDocument | None:
        return self._machine.graph()

    def svg(self) -> str | None:
        return self._svg

    def set_svg(self, cleaned: str | None) -> None:
        """The sanitised picture; None: there is none, or nothing harmless was in it."""
        self._svg = cleaned

    async def last_values(self, most: int = MOST_LATEST_VALUES) -> list[tuple[str, int, str, float]]:
        return self._machine.last_values(most)

    def counters(self) -> dict[str, int]:
        return self._count()

    async def series(
        self, metric: str, path: str, x: XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesAnswer:
        ranks = None if path == ROOT_PATH else self._machine.ranks_below(path)
        if path != ROOT_PATH and ranks is None:
            raise KeyError(path)
        state = self._machine.state
        query = SeriesQuery(
            metric, path, ranks, x, start, end, points, self._reductions[metric], state.started_wall,
            superseded=superseded(state),
        )  # fmt: skip
        return await self._reader.series(query)

    async def baked_series(self, points: int) -> list[BakedSeries]:
        state = self._machine.state
        queries = plan_baked(self.metrics(), self.ranks(), points, state.started_wall, superseded(state))
        return await self._reader.baked(queries)
