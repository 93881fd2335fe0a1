"""A small run to serve: a source with fixed answers, and documents to change."""

from typing import Any

import msgspec

from trackside.wire.baked import BakedSeries
from trackside.wire.documents import (
    EpochRecord,
    EventRecord,
    HeatAnswer,
    MetricEntry,
    RankCounts,
    RankEntry,
    ResourceRecord,
    RunDocument,
    SeriesAnswer,
)

RUN = RunDocument(
    id="run-a",
    name="<b>tiny</b>",
    state="running",
    state_detail=None,
    started_at=1000.0,
    ended_at=None,
    elapsed_seconds=5.0,
    epoch=None,
    epochs=None,
    step=3,
    steps=None,
    eta_seconds=None,
    world_size=2,
    generation=0,
    ranks=RankCounts(alive=2),
    hosts=["node-a", "node-b"],
    label=None,
    hash=None,
    hardware=None,
    metadata={"note": "</script><script>alert(1)</script>"},
    warnings=[],
    version="0",
)


def rank(number: int, host: str) -> RankEntry:
    return RankEntry(
        rank=number,
        local_rank=0,
        host=host,
        path=f"root/{host}/rank{number}",
        label=f"{host}:lr=0 gr={number}",
        generation=0,
        state="alive",
        step=3,
        epoch=None,
        phase=None,
        age_seconds=0.5,
        exit_code=None,
        signal=None,
        samples=None,
        throughput=None,
        batch_share=None,
        clock_offset_seconds=None,
        gpu=None,
        cpu=None,
        memory=None,
    )


class MadeRun:
    """A `RunSource` whose answers a test may change."""

    def __init__(self) -> None:
        self.document = RUN
        self.entries = [rank(0, "node-a"), rank(1, "node-b")]
        self.questions: list[tuple[Any, ...]] = []
        self.epoch_list: list[EpochRecord] = []
        self.event_list: list[EventRecord] = []
        self.resource_list: list[ResourceRecord] = []
        self.picture: str | None = None

    def change(self, **fields: Any) -> None:
        self.document = msgspec.structs.replace(self.document, **fields)

    def run(self) -> RunDocument:
        return self.document

    def ranks(self, path: str = "root") -> list[RankEntry]:
        return [entry for entry in self.entries if f"{entry.path}/".startswith(f"{path}/")]

    def metrics(self) -> list[MetricEntry]:
        return [MetricEntry(name="loss", paths=["root/node-a/rank0"], rank_count=1, points=3)]

    def epochs(self) -> list[EpochRecord]:
        return self.epoch_list

    def resources(self, path: str, most: int = 20_000) -> list[ResourceRecord]:
        return [record for record in self.resource_list if record.path.startswith(path)]

    def events(self) -> list[EventRecord]:
        return self.event_list

    def heat(self, path: str) -> HeatAnswer:
        rows = [rank for rank in self.entries if path in ("root", rank.path)]
        cells: list[list[float | None]] = [[0.1, None] for _ in rows]
        return HeatAnswer(
            ranks=[rank.rank for rank in rows], step=[0, 1], time=[1.0, 2.0], own=cells, data=cells, wall=cells
        )

    def graph(self) -> Any | None:
        return None

    def svg(self) -> str | None:
        return self.picture

    async def last_values(self, most: int = 100) -> list[tuple[str, int, str, float]]:
        return [("loss", 0, "node-a", 0.5), ('a"b\\c\nd', 1, "node-b", float("nan"))]

    def counters(self) -> dict[str, int]:
        return {"frames": 7}

    async def series(self, *question: Any) -> SeriesAnswer:
        self.questions.append(question)
        metric, path = question[0], question[1]
        if metric not in ("loss", "a/b"):
            raise KeyError(metric)
        return SeriesAnswer(
            metric=metric,
            path=path,
            x=[0, 1],
            mean=[1.0, "NaN"],
            min=[1.0, "NaN"],
            max=[1.0, "Infinity"],
            count=[1, 1],
            total_points=2,
            reduction="mean",
        )

    async def baked_series(self, points: int) -> list[BakedSeries]:
        return [
            BakedSeries(
                metric="loss",
                path="root",
                step=[0],
                epoch=[None],
                time=[1000.0],
                mean=[0.123456789123],
                min=["NaN"],
                max=[1],
                count=[2],
                total_points=2,
                reduction="mean",
            )
        ]
