"""Which curves a report holds, so that it stays small however long and wide the run was."""

from collections.abc import Sequence

from msgspec.structs import replace

from trackside.store.cold import SeriesQuery
from trackside.wire.documents import MetricEntry, RankEntry

MOST_ENTRIES = 24_000
"""Entries over all curves of a report; one costs some 70 bytes."""
FEWEST_POINTS = 50
"""A curve of fewer points than this says too little to be worth its bytes."""


def plan_baked(
    metrics: Sequence[MetricEntry],
    ranks: Sequence[RankEntry],
    points: int,
    origin: float,
    superseded: tuple[tuple[int, int], ...] = (),
) -> list[SeriesQuery]:
    """Every metric at the root, and at each host and rank as long as the whole stays bounded: ranks go before hosts.

    Args:
        metrics: of the run.
        ranks: of the run; those of one rank only need no curves of their own.
        points: entries of a curve at the root, at most; fewer when there are very many metrics.
        origin: start of the run, UTC epoch seconds.
        superseded: as in `SeriesQuery`.
    """
    root_points = min(points, max(FEWEST_POINTS, MOST_ENTRIES // 2 // max(1, len(metrics))))
    whole = SeriesQuery("", "root", None, origin=origin, superseded=superseded)
    root = [replace(whole, metric=m.name, points=root_points, reduction=m.reduction) for m in metrics]
    hosts, own = _hosts(ranks), sorted({entry.path: frozenset((entry.rank,)) for entry in ranks}.items())
    for places in (hosts + own, own, hosts) if len(own) > 1 else ():
        curves = len(metrics) * len(places)
        points_below = min(root_points, MOST_ENTRIES // 2 // curves) if curves else 0
        if points_below >= FEWEST_POINTS:
            return root + [
                replace(whole, metric=m.name, path=path, ranks=numbers, points=points_below, reduction=m.reduction)
                for path, numbers in places
                for m in metrics
            ]
    return root


def _hosts(ranks: Sequence[RankEntry]) -> list[tuple[str, frozenset[int]]]:
    """Each host's path and ranks; none for an only host, which is the whole job."""
    hosts: dict[str, set[int]] = {}
    for entry in ranks:
        hosts.setdefault(entry.path.rpartition("/")[0], set()).add(entry.rank)
    return [(path, frozenset(numbers)) for path, numbers in sorted(hosts.items())] if len(hosts) > 1 else []
