"""Epochs as this rank sees them."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trackside.monitor.pulse import OwnWork
from trackside.wire.messages import EpochReport

MAX_OPEN = 1_000
"""Epochs whose values are summed at the same time; a script that never closes one must not fill the memory."""


def sendable_name(name: str) -> str:
    """The name as UTF-8 can hold it; what it cannot is a question mark, in points and epochs alike."""
    return name.encode("utf-8", "replace").decode("utf-8")


_Sum = tuple[float, int, float, float]
"""Sum, count, lowest, highest."""
_NOTHING: _Sum = (0.0, 0, math.inf, -math.inf)


def _mean(total: float, count: int, low: float, high: float) -> float:
    """Within the extremes, so that equal values are their own mean and a sum without a number does not show."""
    mean = total / count
    return mean if math.isnan(mean) else min(max(mean, low), high)


class EpochMeans:
    """This rank's mean of each metric over each epoch that is not closed."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, _Sum]] = {}

    def add(self, epoch: int, name: str, values: Sequence[float]) -> None:
        """Take values, at least one."""
        kept = self._sums.get(epoch)
        if kept is None:
            if len(self._sums) >= MAX_OPEN:
                self._sums.pop(next(iter(self._sums)))
            kept = self._sums[epoch] = {}
        total, count, low, high = kept.get(name, _NOTHING)
        kept[name] = (total + sum(values), count + len(values), min(low, *values), max(high, *values))

    def take(self, epoch: int) -> dict[str, float]:
        """The means of an epoch, which is closed by this."""
        return {name: _mean(*kept) for name, kept in self._sums.pop(epoch, {}).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedEpoch:
    """An epoch that ended, on its way through the buffer behind all that was logged in it."""

    epoch: int
    given: dict[str, float]
    """Values of `log_epoch`; they win over means."""
    batches: int = 0
    samples: int | None = None
    seconds: float | None = None
    work: OwnWork | None = None
    """The rank's own working time in it, by the time the send thread comes to it; None: no batches."""
    wall_seconds: float | None = None
    """What that cannot exceed."""
    ended_at: float
    finish: Callable[[EpochReport], EpochReport]
    """Completes the report with what is known of this epoch already; on the send thread."""

    def report(self, means: dict[str, float], as_sent: Callable[[str], str]) -> EpochReport:
        """The report, with this rank's means; `as_sent` turns a name into the one its points have."""
        report = EpochReport(
            epoch=self.epoch,
            metrics={as_sent(name): value for name, value in {**means, **self.given}.items()},
            batches=self.batches,
            samples=self.samples,
            seconds=self.seconds,
            work_seconds=self._work_seconds(),
            ended_at=self.ended_at,
        )
        return self.finish(report)

    def _work_seconds(self) -> float | None:
        seconds = self.work.seconds if self.work is not None else None
        if seconds is None or self.wall_seconds is None:
            return seconds
        return min(seconds, self.wall_seconds)


@dataclass(slots=True)
class OpenEpoch:
    """The epoch that is running."""

    epoch: int
    batches_before: int
    samples_before: int | None
    work: OwnWork
    began: float = field(default_factory=time.monotonic)
    given: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    samples: int | None = None
