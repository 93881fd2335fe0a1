"""What one chart answer takes: a series of 10 M points, and one of 1,024 ranks; in Parquet with the newest in memory.

The segments are those that the store writes while a run goes on, so nothing here has been tidied by a clean end.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from record import Figure, save

from trackside.store import PointTable, RunFolder, SeriesQuery, SeriesReader
from trackside.store.database import connect
from trackside.store.outline import write_outline
from trackside.store.segments import write_segment
from trackside.wire.columns import PointBatch

POINTS = 10_000_000
SEGMENT = 1_000_000
HOT = 200_000
SPIKE = 7_654_321
REPEATS = 7
BUDGET_MS = 150.0
BUDGET_KB = 100.0
LOSS = SeriesQuery("loss", "root", None, origin=1.7e9)


def long_rows(first: int, count: int) -> PointBatch:
    """One series of one rank at 1 kHz; one value stands out."""
    step = np.arange(first, first + count)
    value = (1 / (1 + step * 1e-5) + np.random.default_rng(first).normal(0, 0.05, count)).astype(np.float32)
    value[step == SPIKE] = 77.0
    zeros = np.zeros(count, np.int32)
    return PointBatch(zeros, zeros, zeros, zeros - 1, step, 1.7e9 + step * 1e-3, value.astype(np.float64))


def wide_rows(first: int, steps: int, ranks: int = 1024, series: int = 20) -> PointBatch:
    """Every rank's every series for some steps at 1 Hz."""
    step, rank, metric = (axis.ravel() for axis in np.mgrid[first : first + steps, :ranks, :series])
    zeros = np.zeros(step.size, np.int32)
    value = np.random.default_rng(first).normal(size=step.size)
    time_s = 1.7e9 + step + rank * 1e-4
    return PointBatch(metric.astype(np.int32), rank.astype(np.int32), zeros, zeros - 1, step, time_s, value)


class Shelf:
    """A run folder half written: segments, and a table that knows the newest rows."""

    def __init__(self, base: str, cold: list[PointBatch], hot: PointBatch, names: dict[int, str]) -> None:
        folder = RunFolder.create(base, "bench", time.time())
        paths = {(rank, 0): f"root/node-{rank // 8}/rank{rank}" for rank in range(1024)}
        with connect(scratch=folder.journal) as database:
            for at, rows in enumerate(cold):
                write_outline(database, folder, write_segment(database, folder, at + 1, [rows], (names, paths)))
        self.table = PointTable(files=tuple(folder.point_files()))
        for metric, name in names.items():
            self.table.name_metric(metric, name)
        self.table.append(hot)
        self.reader = SeriesReader(self.table.snapshot)

    def ask(self, query: SeriesQuery) -> dict:
        """The first answer of a reader that knows nothing, then some more."""
        reader = SeriesReader(self.table.snapshot)
        try:
            first, answer = timed(lambda: reader.series_now(query))
            more = [timed(lambda: reader.series_now(query))[0] for _ in range(REPEATS)]
        finally:
            reader.close()
        return {
            "first_ms": first,
            "ms": median(more),
            "all_ms": more,
            "kb": len(msgspec.json.encode(answer)) / 1000,
            "entries": len(answer.x),
            "points": answer.total_points,
            "highest": max(answer.max),
        }


def timed(call: Callable):
    began = time.perf_counter()
    result = call()
    return (time.perf_counter() - began) * 1000, result


def long_series(base: str) -> dict[str, dict]:
    cold = [long_rows(first, SEGMENT) for first in range(0, POINTS - HOT, SEGMENT)]
    cold[-1] = long_rows(POINTS - SEGMENT, SEGMENT - HOT)
    shelf = Shelf(base, cold, long_rows(POINTS - HOT, HOT), {0: "loss"})
    return {
        "whole, by step": shelf.ask(LOSS),
        "whole, by time": shelf.ask(replace(LOSS, x="relative")),
        "whole, 1,500 entries": shelf.ask(replace(LOSS, points=1500)),
        "zoomed to 50,000 steps": shelf.ask(replace(LOSS, start=5_100_000, end=5_150_000)),
        "zoomed to 900 steps": shelf.ask(replace(LOSS, start=SPIKE - 450, end=SPIKE + 449)),
    }


def wide_series(base: str) -> dict[str, dict]:
    cold = [wide_rows(first, 45) for first in range(0, 450, 45)]
    shelf = Shelf(base, cold, wide_rows(450, 10), {at: f"m{at}" for at in range(20)})
    one = replace(LOSS, metric="m7")
    return {
        "all ranks": shelf.ask(one),
        "all ranks, by time": shelf.ask(replace(one, x="relative")),
        "one host": shelf.ask(replace(one, ranks=frozenset(range(512, 520)))),
        "one rank": shelf.ask(replace(one, ranks=frozenset({777}))),
    }


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as base:
        long, wide = long_series(base), wide_series(str(Path(base) / "wide"))
    figures = []
    for title, found in (("10 M points in one series", long), ("1,024 ranks × 20 series × 460 steps", wide)):
        for name, figure in found.items():
            note = f"{figure['entries']:,} entries of {figure['points']:,} points; the first time {figure['first_ms']:.0f} ms"
            figures.append(Figure(f"{title}: {name}", figure["ms"], "ms", BUDGET_MS, note=note))
    sizes = [figure["kb"] for figure in (*long.values(), *wide.values())]
    figures.append(Figure("largest answer", max(sizes), "kB", BUDGET_KB))
    seen = sum(figure["highest"] == 77.0 for figure in long.values())
    figures.append(
        Figure("answers that show the one spike of 10 M", seen, "", 4, "least", note="of 5; one looks elsewhere")
    )
    save("chart_query", "One chart answer", figures, {"long": long, "wide": wide})
    return 0


if __name__ == "__main__":
    sys.exit(main())
