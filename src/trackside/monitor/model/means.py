"""Means of what modules took, over the passes that were measured lately."""

import math
from array import array
from collections.abc import Mapping

from trackside.wire.messages import ModuleTimes

WINDOW = 50
"""Passes that a mean goes over, about: older ones fade."""


class Means:
    """Running means by node. Threads: one writes, another may read; single figures are never torn."""

    def __init__(self, size: int) -> None:
        self.passes = 0
        self.on_device = False
        self._forward = [math.nan] * size
        self._backward = [math.nan] * size
        self._forward_count = [0] * size
        self._backward_count = [0] * size

    def take(self, times: Mapping[int, tuple[float, float | None]], *, on_device: bool) -> None:
        """One more pass."""
        self.on_device = on_device
        for node, (forward, backward) in times.items():
            _add(self._forward, self._forward_count, node, forward)
            if backward is not None:
                _add(self._backward, self._backward_count, node, backward)
        self.passes += 1

    def message(self, graph: str | None) -> ModuleTimes:
        """The present means of all nodes that have any; `graph` is the structural hash they belong to."""
        known = [node for node, count in enumerate(self._forward_count) if count]
        return ModuleTimes(
            passes=self.passes,
            on_device=self.on_device,
            module=_bytes("I", known),
            forward=_bytes("d", [self._forward[node] for node in known]),
            backward=_bytes("d", [self._backward[node] for node in known]),
            graph=graph,
        )


def _add(means: list[float], counts: list[int], node: int, value: float) -> None:
    counts[node] = count = min(counts[node] + 1, WINDOW)
    means[node] = value if count == 1 else means[node] + (value - means[node]) / count


def _bytes(code: str, values: list[int] | list[float]) -> bytes:
    packed = array(code, values)
    return packed.tobytes()
