"""Which passes are measured: few enough that measuring costs a small part of the time, whatever a pass takes."""

WARM_UP = 3
"""Passes after the recorded one that say nothing yet: memory is allocated, kernels are chosen."""
LEAST_PASSES = 8
LEAST_PAUSE_S = 0.25
SHARE = 0.004
"""Part of the time that measuring may take."""


class PassSampler:
    """Says when the next pass is due, by what the last one cost."""

    def __init__(self) -> None:
        self._passes = 0
        self._next_pass = WARM_UP
        self._next_at = 0.0

    def is_due(self, now: float) -> bool:
        """Whether the pass that begins now is to be measured; counts it. `now` is monotonic."""
        self._passes += 1
        return self._passes > self._next_pass and now >= self._next_at

    def note(self, cost_s: float, now: float) -> None:
        """A pass was measured, or recorded, at this cost."""
        self._next_pass = max(self._next_pass, self._passes - 1 + LEAST_PASSES)
        self._next_at = now + max(LEAST_PAUSE_S, cost_s / SHARE)
