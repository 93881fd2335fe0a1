"""Epochs as this rank sees them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.wire.messages import EpochReport

MAX_OPEN = 1_000
"""Epochs whose values are summed at the same time; a script that never closes one must not fill the memory."""


def sendable_name(name: str) -> str:
    """The name as UTF-8 can hold it; what it cannot is a question mark, in points and epochs alike."""
    return name.encode("utf-8", "replace").decode("utf-8")


class EpochMeans:
    """This rank's mean of each metric over each epoch that is not closed."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, tuple[float, int]]] = {}

    def add(self, epoch: int, name: str, total: float, count: int) -> None:
        """Take `count` values that sum to `total`."""
        kept = self._sums.get(epoch)
        if kept is None:
            if len(self._sums) >= MAX_OPEN:
                self._sums.pop(next(iter(self._sums)))
            kept = self._sums[epoch] = {}
        before, known = kept.get(name, (0.0, 0))
        kept[name] = (before + total, known + count)

    def take(self, epoch: int) -> dict[str, float]:
        """The means of an epoch, which is closed by this."""
        return {name: total / count for name, (total, count) in self._sums.pop(epoch, {}).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedEpoch:
    """An epoch that ended, on its way through the buffer behind all that was logged in it."""

    epoch: int
    given: dict[str, float]
    """Values of `log_epoch`; they win over means."""
    batches: int = 0
    samples: int | None = None
    seconds: float | None = None
    work_seconds: float | None = None
    ended_at: float
    finish: Callable[[EpochReport], EpochReport]
    """Completes the report with what is known of this epoch already; on the send thread."""

    def report(self, means: dict[str, float]) -> EpochReport:
        """The report, with this rank's means."""
        report = EpochReport(
            epoch=self.epoch,
            metrics={sendable_name(name): value for name, value in {**means, **self.given}.items()},
            batches=self.batches,
            samples=self.samples,
            seconds=self.seconds,
            work_seconds=self.work_seconds,
            ended_at=self.ended_at,
        )
        return self.finish(report)


@dataclass(slots=True)
class OpenEpoch:
    """The epoch that is running."""

    epoch: int
    batches_before: int
    samples_before: int | None
    work_before: float
    began: float = field(default_factory=time.monotonic)
    given: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    samples: int | None = None
