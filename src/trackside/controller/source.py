"""The running run as something to read from."""

from collections.abc import Callable
from typing import Any

from trackside.run.inputs import Moment
from trackside.run.machine import RunMachine
from trackside.store import SeriesQuery, SeriesReader
from trackside.wire.documents import (
    BakedSeries,
    EpochRecord,
    EventRecord,
    MetricEntry,
    RankEntry,
    ResourceRecord,
    RunDocument,
    SeriesAnswer,
    XAxis,
)
from trackside.wire.ids import ROOT_PATH
from trackside.wire.messages import Reduction

BAKED_ENTRIES = 30_000
"""Entries of all curves of a report together, root and ranks each."""
LEAST_RANK_POINTS = 40
"""With fewer entries than this a rank's curve says nothing, and the ranks are left out of the report."""


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
        self._metrics: dict[str, tuple[int, Reduction]] = {}

    def define_metric(self, metric: int, name: str, reduction: Reduction) -> None:
        """A metric exists."""
        self._metrics[name] = (metric, reduction)

    def run(self) -> RunDocument:
        return self._machine.run_document(self._now())

    def ranks(self) -> list[RankEntry]:
        return self._machine.rank_entries(self._now())

    def metrics(self) -> list[MetricEntry]:
        return self._machine.metric_entries()

    def epochs(self) -> list[EpochRecord]:
        return self._machine.epoch_records()

    def resources(self, path: str) -> list[ResourceRecord]:
        return self._machine.resource_records(path)

    def events(self) -> list[EventRecord]:
        return self._machine.event_records()

    def graph(self) -> Any | None:
        return self._machine.graph()

    def svg(self) -> str | None:
        return self._svg

    def set_svg(self, cleaned: str | None) -> None:
        """The sanitised picture; None: there is none, or nothing harmless was in it."""
        self._svg = cleaned

    def last_values(self) -> list[tuple[str, int, str, float]]:
        return self._machine.last_values()

    def counters(self) -> dict[str, int]:
        return self._count()

    async def series(
        self, metric: str, path: str, x: XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesAnswer:
        ranks = None if path == ROOT_PATH else self._machine.ranks_below(path)
        if path != ROOT_PATH and ranks is None:
            raise KeyError(path)
        return await self._reader.series(self._query(metric, path, ranks, x, start, end, points))

    async def baked_series(self, points: int) -> list[BakedSeries]:
        entries = self.metrics()
        each = min(points, max(50, BAKED_ENTRIES // max(1, len(entries))))
        queries = [self._query(entry.name, ROOT_PATH, None, "step", None, None, each) for entry in entries]
        ranks = [(entry.path, entry.rank) for entry in self.ranks()]
        of_rank = min(points // 2, BAKED_ENTRIES // max(1, len(entries) * len(ranks)))
        if len(ranks) > 1 and of_rank >= LEAST_RANK_POINTS:
            queries += [
                self._query(entry.name, path, frozenset([rank]), "step", None, None, of_rank)
                for entry in entries
                for path, rank in ranks
            ]
        return await self._reader.baked(queries)

    def _query(
        self,
        metric: str,
        path: str,
        ranks: frozenset[int] | None,
        x: XAxis,
        start: float | None,
        end: float | None,
        points: int,
    ) -> SeriesQuery:
        number, reduction = self._metrics[metric]
        origin = self._machine.state.started_wall
        return SeriesQuery(metric, path, ranks, x, start, end, points, reduction, origin, number)
