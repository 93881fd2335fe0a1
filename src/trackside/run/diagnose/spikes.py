"""Steps that are slow on the whole job now and then: a checkpoint, an evaluation, the beginning of an epoch."""

import math
from collections import Counter
from typing import TypeVar

import msgspec
import numpy as np

from trackside.run.diagnose.blame import own_phases, own_times
from trackside.run.diagnose.entries import Array
from trackside.run.diagnose.peers import column_medians
from trackside.run.diagnose.window import WALL, Aligned

T = TypeVar("T")

KEPT = 32
FEWEST = 4
"""Slow steps at like distances that may make a pattern; short distances need more, for chance makes those too."""
CHANCE = 1e-5
LEAST_RATIO = 1.5
LEAST_ERRORS = 6.0
LEAST_COST = 0.03
"""Part of the job's time that the pattern must cost to be worth a word."""
OUT_OF_STEP = 0.02
"""How much distances may differ; one block always."""
FEWEST_STEPS_BETWEEN = 5
BASE_BLOCKS = 64
FEWEST_BLOCKS = 16


class Spike(msgspec.Struct, frozen=True):
    """One slow step of the job."""

    step: int
    seconds: float
    """Above what the steps around it take."""
    phase: str | None
    rank: int | None
    """The only rank that needed it for itself, while the others waited."""


class Pattern(msgspec.Struct, frozen=True):
    """Slow steps that come again and again."""

    every: int
    seconds: float
    """Mean above the others."""
    base: float
    first_step: int
    last_step: int
    phase: str | None
    rank: int | None
    count: int


class SpikeLog:
    """The latest slow steps of the job."""

    def __init__(self, spikes: list[Spike] | None = None, seen: int = -1) -> None:
        self.spikes = list(spikes or ())
        self.seen = seen
        """Last step that was looked at."""
        self._base = math.nan

    def take(self, view: Aligned) -> None:
        """Look at the blocks that are new."""
        stride = view.window.stride
        steps = view.ids * stride
        if int(steps[-1]) + stride - 1 < self.seen:  # the script counts anew
            self.spikes, self.seen = [], -1
        new = np.flatnonzero(steps + stride - 1 > self.seen)
        if not len(new) or len(steps) < FEWEST_BLOCKS:
            return
        wall = np.nan_to_num(column_medians(view.plane(WALL)))
        recent = wall[-BASE_BLOCKS:]
        self._base = base = float(np.median(recent))
        if not base > 0:
            return
        with np.errstate(divide="ignore", invalid="ignore"):  # nothing is known of a block, or of several in a row
            height = np.log(wall / base)
            changes = np.abs(np.diff(height[-BASE_BLOCKS:]))
        changes = changes[np.isfinite(changes)]
        spread = 1.05 * float(np.median(changes)) if len(changes) else 0.0
        limit = max(math.log(LEAST_RATIO), LEAST_ERRORS * spread)
        for at in new[height[new] > limit].tolist():
            self._keep(view, at, float(wall[at] - base) * stride)
        self.seen = int(steps[-1]) + stride - 1

    def _keep(self, view: Aligned, at: int, seconds: float) -> None:
        step = view.first_step(at) + view.window.stride - 1
        if self.spikes and step - self.spikes[-1].step <= view.window.stride:  # one long pause in two blocks
            before = self.spikes[-1]
            self.spikes[-1] = msgspec.structs.replace(before, seconds=before.seconds + seconds)
            return
        phase, rank = _cause(view, at)
        self.spikes = [*self.spikes, Spike(step, seconds, phase, rank)][-KEPT:]

    def pattern(self, last_step: int, stride: int) -> Pattern | None:
        """What comes regularly up to now and costs something; None otherwise."""
        causes = dict.fromkeys((spike.phase, spike.rank) for spike in self.spikes)
        alike = [[one for one in self.spikes if (one.phase, one.rank) == cause] for cause in causes]
        found = [self._regular(spikes, last_step, stride) for spikes in (self.spikes, *alike)]
        return max((one for one in found if one is not None), key=lambda one: one.seconds / one.every, default=None)

    def _regular(self, spikes: list[Spike], last_step: int, stride: int) -> Pattern | None:
        """The longest row of regular ones up to now."""
        steps = [spike.step for spike in spikes]
        for used in range(len(steps), FEWEST - 1, -1):
            gaps = np.diff(steps[-used:])
            every = float(np.median(gaps))
            off = float(np.max(np.abs(gaps - every)))
            chance = min(1.0, (2.0 * off + stride) / every)
            is_regular = off <= max(stride, OUT_OF_STEP * every) and every >= FEWEST_STEPS_BETWEEN * stride
            if not is_regular or chance ** (used - 2) > CHANCE:
                continue
            if last_step - steps[-1] > 1.5 * every + stride:
                return None
            return self._pattern(spikes[-used:], round(every))
        return None

    def _pattern(self, spikes: list[Spike], every: int) -> Pattern | None:
        seconds = float(np.mean([spike.seconds for spike in spikes]))
        if not seconds >= LEAST_COST * every * self._base:
            return None
        return Pattern(
            every=every,
            seconds=seconds,
            base=self._base,
            first_step=spikes[0].step,
            last_step=spikes[-1].step,
            phase=_usual([spike.phase for spike in spikes]),
            rank=_usual([spike.rank for spike in spikes]),
            count=len(spikes),
        )


def _usual(values: list[T | None]) -> T | None:
    """What nearly all of them say."""
    value, count = Counter(values).most_common(1)[0]
    return value if count >= 0.8 * len(values) else None


def _cause(view: Aligned, at: int) -> tuple[str | None, int | None]:
    """Phase that took the time, and the rank that was alone in needing it."""
    own = own_times(view)
    usual = _row_middles(own)
    more = np.nan_to_num(own[:, at] - usual)
    before = np.nan_to_num(own[:, at - 1] - usual) if at else more
    if before.max() > more.max():  # what came behind one step's last collective is waited for in the next
        at, more = at - 1, before
    order = np.argsort(-more)
    worst = int(order[0])
    is_alone = len(more) > 1 and more[worst] > 0 and more[order[1]] < 0.2 * more[worst]
    rows = [worst] if is_alone else list(range(len(more)))
    best, phase = 0.0, None
    for name in own_phases(view):
        seconds = view.phase(name)[rows]
        growth = float(np.nan_to_num(np.median(seconds[:, at] - _row_middles(seconds))))
        if growth > best:
            best, phase = growth, name
    return phase, view.ranks[worst] if is_alone else None


def _row_middles(values: Array) -> Array:
    ordered = np.sort(values, axis=1)
    known = np.isfinite(values).sum(axis=1)
    return np.where(known > 0, ordered[np.arange(len(values)), np.maximum(known - 1, 0) // 2], np.nan)
