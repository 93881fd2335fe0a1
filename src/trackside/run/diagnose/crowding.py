"""Hosts with too few cores: whose ranks could go on and have to wait for one."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from trackside.run.diagnose.entries import Array
from trackside.run.diagnose.window import CORE_WAIT, WALL, Aligned

BLOCKS = 32
SECONDS = 10.0
"""So much of the job is looked at, and at least so many blocks."""
CROWDED = 0.1
"""Part of the job's step that a rank has to wait for a core, for its host to be crowded."""
ROOMY = 0.05
"""Part below which it is no longer."""
STANDS_OUT = 2.0
"""A rank that waits so many times as long as the others of its host is named: it may be tied to a busy core."""


class CoreWaits(msgspec.Struct, frozen=True):
    """How long the ranks of one host wait for a core, in the mean of the latest steps."""

    seconds: float
    """Of the rank that waits longest, a step."""
    ratio: float
    """The same as a part of the job's step."""
    rank: int | None
    """That rank, if it is an exception on its host."""
    ranks: int

    @property
    def is_crowded(self) -> bool:
        """Whether it costs the job."""
        return self.ratio >= CROWDED


def core_waits(view: Aligned, hosts: Mapping[int, str]) -> tuple[Aligned, dict[str, CoreWaits]]:
    """Measure the hosts whose ranks tell; none when there are too few steps.

    Args:
        view: The blocks of all ranks.
        hosts: Host by rank.

    Returns: The blocks that were looked at, and what was found by host.
    """
    step = _mean(view.latest(BLOCKS).plane(WALL))
    block_s = step * view.window.stride
    blocks = max(BLOCKS, math.ceil(SECONDS / block_s)) if block_s > 0 else BLOCKS
    if not block_s > 0 or len(view.ids) < blocks:
        return view, {}
    view = view.latest(blocks)
    values = view.plane(CORE_WAIT)
    told = np.isfinite(values).sum(axis=1)
    means = np.nansum(values, axis=1) / np.maximum(told, 1)
    by_host: dict[str, list[tuple[float, int]]] = {}
    for rank, mean, count in zip(view.ranks, means.tolist(), told.tolist(), strict=True):
        if rank in hosts and count * 2 >= len(view.ids):
            by_host.setdefault(hosts[rank], []).append((mean, rank))
    return view, {host: _waits(found, step) for host, found in by_host.items()}


def _waits(found: list[tuple[float, int]], step: float) -> CoreWaits:
    found.sort(reverse=True)
    most, rank = found[0]
    others = [mean for mean, _ in found[1:]]
    is_alone = bool(others) and most > STANDS_OUT * max(others)
    return CoreWaits(seconds=most, ratio=min(1.0, most / step), rank=rank if is_alone else None, ranks=len(found))


def _mean(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan
