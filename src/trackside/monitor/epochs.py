"""Epochs as this rank sees them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.wire.messages import EpochReport


@dataclass(frozen=True, slots=True)
class ClosedEpoch:
    """An epoch that ended, before its means are known."""

    epoch: int
    given: dict[str, float]
    """Values of `log_epoch`; they win over means."""
    batches: int
    samples: int | None
    seconds: float | None
    work_seconds: float | None
    ended_at: float
    told: Callable[[EpochReport], None] | None = None
    """Gets the report when it is known."""

    def report(self, means: dict[str, float]) -> EpochReport:
        """The report, with this rank's means."""
        metrics = {**means, **self.given}
        report = EpochReport(
            epoch=self.epoch,
            metrics=metrics,
            batches=self.batches,
            samples=self.samples,
            seconds=self.seconds,
            work_seconds=self.work_seconds,
            ended_at=self.ended_at,
        )
        if self.told is not None:
            self.told(report)
        return report


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
