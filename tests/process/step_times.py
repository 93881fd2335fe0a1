"""`StepTimes` as people read them: one dict an entry."""

from __future__ import annotations

from typing import Any

from tests.process.station import Station
from trackside.run.inputs import MessageArrived
from trackside.wire.messages import StepTimes


def rows(message: StepTimes) -> list[dict[str, Any]]:
    """The entries of one message."""
    seconds, width = doubles(message.seconds), len(message.phases)
    columns = zip(
        whole(message.step),
        memoryview(message.count).cast("I").tolist(),
        doubles(message.ended_at),
        doubles(message.wall),
        doubles(message.own),
        whole(message.samples),
        strict=True,
    )
    return [
        {
            "step": step,
            "count": count,
            "ended_at": ended_at,
            "wall": wall,
            "own": own,
            "samples": samples,
            "seconds": dict(zip(message.phases, seconds[row * width : (row + 1) * width], strict=True)),
        }
        for row, (step, count, ended_at, wall, own, samples) in enumerate(columns)
    ]


def by_rank(station: Station) -> dict[int, list[dict[str, Any]]]:
    """What has arrived, by rank, in order."""
    ranks = {hello.session: hello.identity.rank for hello in station.hellos() if hello.identity is not None}
    found: dict[int, list[dict[str, Any]]] = {rank: [] for rank in ranks.values()}
    for arrived in list(station.inputs):
        if isinstance(arrived, MessageArrived) and isinstance(arrived.message, StepTimes):
            found[ranks[arrived.session]] += rows(arrived.message)
    return found


def doubles(column: bytes) -> list[float]:
    return memoryview(column).cast("d").tolist()


def whole(column: bytes) -> list[int]:
    return memoryview(column).cast("q").tolist()
