"""Which passes are measured: few enough that measuring costs a small part of the time, whatever a pass takes.

All times are CPU time of the training thread, so that it holds on a host that others use as well.
"""

WARM_UP = 3
"""Passes after the recorded one that say nothing yet: memory is allocated, kernels are chosen."""
LEAST_PASSES = 8
LEAST_PAUSE_S = 0.25
SHARE = 0.004
"""Part of the time that measuring may take."""


class PassSampler:
    """Says when the next pass is due, by what the last one cost.

    Args:
        passes: how many there were before.
    """

    __slots__ = ("next_at", "next_pass")

    def __init__(self, passes: int = 0) -> None:
        self.next_pass = passes + WARM_UP + 1
        """Number of the first pass that may be measured."""
        self.next_at = 0.0
        """When, in CPU time of the thread."""

    def is_due(self, number: int, now: float) -> bool:
        """Whether the pass of this number, which begins now, is to be measured."""
        return number >= self.next_pass and now >= self.next_at

    def note(self, cost_s: float, number: int, now: float) -> None:
        """A pass was measured at this cost."""
        self.next_pass = number + LEAST_PASSES
        self.next_at = now + max(LEAST_PAUSE_S, cost_s / SHARE)

    def add(self, cost_s: float) -> None:
        """What the last one has cost besides."""
        self.next_at += cost_s / SHARE
