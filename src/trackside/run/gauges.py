"""Resource samples as columns for drawing: a bounded number of samples a path, and no field that nobody filled."""

import math
from collections.abc import Iterable

from trackside.wire.documents import GaugesAnswer, GaugeTrack, ResourceRecord
from trackside.wire.ids import ROOT_PATH

FIGURES = (
    "cpu",
    "memory_used",
    "memory_total",
    "network_sent",
    "network_received",
    "disk_read",
    "disk_written",
    "disk_used",
    "disk_total",
    "gpu_util",
    "gpu_util_peak",
    "vram_used",
    "vram_total",
    "temperature",
    "power",
    "torch_allocated",
    "torch_reserved",
)
MOST_SAMPLES = 40_000
"""Over all paths, so that an answer stays near 2 MB before it is compressed."""
FEWEST_SAMPLES = 16
DIGITS = 4


def gauges_of(records: Iterable[ResourceRecord], points: int) -> GaugesAnswer:
    """Columns of all paths.

    Args:
        records: oldest first.
        points: at most so many samples of a path, evenly taken, the newest always; fewer where the paths are very many.
    """
    by_path: dict[str, list[ResourceRecord]] = {}
    for record in records:
        by_path.setdefault(record.path, []).append(record)
    most = min(points, max(FEWEST_SAMPLES, MOST_SAMPLES // max(1, len(by_path))))
    origin = math.floor(min((kept[0].time for kept in by_path.values()), default=0.0))
    return GaugesAnswer(
        origin=origin,
        tracks=[_track(evenly(kept, most), origin) for kept in by_path.values()],
        latest=[kept[-1] for path, kept in by_path.items() if kept[-1].rank is None and path != ROOT_PATH],
    )


def evenly(records: list[ResourceRecord], most: int) -> list[ResourceRecord]:
    """At most so many of the records, the newest always."""
    count = min(most, len(records))
    return [records[len(records) - 1 - at * len(records) // count] for at in range(count - 1, -1, -1)]


def _track(records: list[ResourceRecord], origin: float) -> GaugeTrack:
    columns = {name: [_short(getattr(record, name)) for record in records] for name in FIGURES}
    newest = records[-1]
    return GaugeTrack(
        path=newest.path,
        host=newest.host,
        rank=newest.rank,
        time=[round(record.time - origin, 2) for record in records],
        values={name: column for name, column in columns.items() if any(value is not None for value in column)},
    )


def _short(value: float | None) -> float | None:
    """To so many digits: more are not seen on a chart. What is not finite is no figure of a machine."""
    if value is None or not math.isfinite(value):
        return None
    if value == 0:
        return 0
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
