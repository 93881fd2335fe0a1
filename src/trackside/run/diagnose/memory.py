"""Memory that grows and grows: a leak, seen before it ends the run."""

import itertools
import statistics
from typing import Literal, NamedTuple

import msgspec

KEPT = 64
"""Samples of a rank; when they are full every second one goes, so they reach back over the whole run."""
WARM_UP = 0.2
"""First part of the samples that does not count: caches fill, pools grow."""
PARTS = 8
FEWEST = 16
LEAST_SECONDS = 45.0
"""Growth over a shorter time is a beginning, not a leak."""
SETTLE_STEPS = 20
SETTLE_SECONDS = 60.0
"""A process is not looked at before so many steps, or, when it counts none, before so much time."""
LEAST_GROWTH_RATIO = 0.05
LEAST_GROWTH_BYTES = 64 << 20
STEADY = 0.5
"""The later half must grow at least so fast as this part of the earlier half's rate; else it levels off."""
STOPPED = 0.2
"""Part of its former rate below which growth has ended."""

Where = Literal["host", "device"]


class MemorySample(msgspec.Struct, frozen=True, array_like=True):
    """One rank's memory."""

    mono: float
    step: int | None
    host: int | None
    """Resident bytes of the process tree."""
    device: int | None
    """Bytes that torch has allocated."""


class Growth(NamedTuple):
    """Steady growth of one rank's memory."""

    where: Where
    first_bytes: float
    last_bytes: float
    rate: float
    """Bytes a second."""
    since_step: int | None
    samples: int


class MemoryTrace(msgspec.Struct):
    """One rank's memory over its whole run, ever more thinly."""

    samples: list[MemorySample] = []
    pause: float = 0.0
    """Seconds between samples that are kept."""
    first: MemorySample | None = None
    """What came first, and decides from when on samples are kept."""

    def take(self, sample: MemorySample) -> None:
        """Keep a sample if it is time for one."""
        if self.first is None or (self.first.step is None and sample.step is not None):
            self.first = sample
        if self._is_settling(self.first, sample):
            return
        kept = self.samples
        if kept and sample.mono - kept[-1].mono < 0.9 * self.pause:
            return
        kept.append(sample)
        if len(kept) >= KEPT:
            self.pause = 2.0 * (kept[-1].mono - kept[0].mono) / (len(kept) - 1)
            del kept[1::2]

    def _is_settling(self, first: MemorySample, sample: MemorySample) -> bool:
        if sample.step is None or first.step is None:
            return sample.mono - first.mono < SETTLE_SECONDS
        return sample.step - first.step < SETTLE_STEPS

    def growth(self) -> Growth | None:
        """Steady growth up to now; on the device before the host's, for that limit is nearer."""
        return self._growth_of("device") or self._growth_of("host")

    def _growth_of(self, where: Where) -> Growth | None:
        means = self._parts(where)
        if means is None:
            return None
        times, values, samples = means
        rises = [after - before for before, after in itertools.pairwise(values)]
        total = values[-1] - values[0]
        if min(rises) <= 0 or total < max(LEAST_GROWTH_BYTES, LEAST_GROWTH_RATIO * values[0]):
            return None
        half = PARTS // 2
        early = (values[half] - values[0]) / (times[half] - times[0])
        late = (values[-1] - values[half]) / (times[-1] - times[half])
        if late < STEADY * early:
            return None
        return Growth(where, values[0], values[-1], late, samples[0].step, len(samples))

    def has_stopped(self) -> bool:
        """Whether nothing grows any more at the rate at which it did before."""
        return self._has_stopped("device") and self._has_stopped("host")

    def _has_stopped(self, where: Where) -> bool:
        means = self._parts(where)
        if means is None:
            return True
        times, values, _ = means
        whole = (values[-1] - values[0]) / (times[-1] - times[0])
        late = (values[-1] - values[-3]) / (times[-1] - times[-3])
        return late <= max(0.0, STOPPED * whole)

    def _parts(self, where: Where) -> tuple[list[float], list[float], list[MemorySample]] | None:
        """Times and medians of the parts, once warm-up is left out."""
        known = [sample for sample in self.samples if getattr(sample, where) is not None]
        known = known[int(len(known) * WARM_UP) :]
        if len(known) < FEWEST or known[-1].mono - known[0].mono < LEAST_SECONDS:
            return None
        bounds = [round(part * len(known) / PARTS) for part in range(PARTS + 1)]
        groups = [known[start:end] for start, end in itertools.pairwise(bounds)]
        times = [statistics.fmean(sample.mono for sample in group) for group in groups]
        values = [statistics.median(getattr(sample, where) for sample in group) for group in groups]
        return times, values, known


class Leak(msgspec.Struct, frozen=True):
    """Growth with what it leads to."""

    rank: int
    growth: Growth
    seconds_left: float | None
    """Until the limit is reached; None when that is unknown."""
