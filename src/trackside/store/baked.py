"""Which curves a report holds, so that it stays small however long and wide the run was."""

from collections.abc import Sequence

from trackside.store.cold import SeriesQuery
from trackside.wire.documents import MetricEntry, RankEntry

MOST_ENTRIES = 24_000
"""Entries over all curves of a report; one costs some 70 bytes."""
FEWEST_POINTS = 50
"""A curve of fewer points than this says too little to be worth its bytes."""


def plan_baked(
    metrics: Sequence[MetricEntry], ranks: Sequence[RankEntry], points: int, origin: float
) -> list[SeriesQuery]:
    """Every metric at the root, and at each rank as long as the whole stays bounded.

    Args:
        metrics: of the run.
        ranks: of the run; those of one rank only need no curves of their own.
        points: entries of a curve at the root, at most; fewer when there are very many metrics.
        origin: start of the run, UTC epoch seconds.
    """
    root_points = min(points, max(FEWEST_POINTS, MOST_ENTRIES // 2 // max(1, len(metrics))))
    root = [
        SeriesQuery(m.name, "root", None, points=root_points, reduction=m.reduction, origin=origin) for m in metrics
    ]
    places = sorted({entry.path: entry.rank for entry in ranks}.items())
    curves = len(metrics) * len(places)
    rank_points = min(root_points, MOST_ENTRIES // 2 // curves) if curves else 0
    if len(places) < 2 or rank_points < FEWEST_POINTS:
        return root
    return root + [
        SeriesQuery(m.name, path, frozenset((rank,)), points=rank_points, reduction=m.reduction, origin=origin)
        for path, rank in places
        for m in metrics
    ]
