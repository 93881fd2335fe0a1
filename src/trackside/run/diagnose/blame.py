"""Which rank is behind in its own time, in which phase, since when."""

import math
from collections.abc import Collection, Mapping

import msgspec
import numpy as np

from trackside.run.diagnose.entries import Array
from trackside.run.diagnose.peers import (
    LASTING,
    Noise,
    Scan,
    bound_of,
    column_medians,
    limit_for,
    noise_of,
    peer_medians,
    scan,
    trimmed_mean,
)
from trackside.run.diagnose.window import CORE_WAIT, OWN, SAMPLES, WALL, Aligned

SETTLE_STEPS = 5
"""First steps of a process that are not judged: caches, compilation, autotuning."""
LEAST_EXCESS = math.log(1.10)
"""A rank that needs less than a tenth more than its peers is not behind."""
LEAST_OF_STEP = 0.05
"""Nor is one whose excess is less than this part of the job's step."""
LEAST_SECONDS = 0.5
"""Nor one that was slow for a shorter time than this."""
CLEAR_ERRORS = 3.0
CLEAR_BLOCKS = 16
LEAST_OWN = 0.01
"""Part of a rank's own time that is left of it in any case."""
SAME_EFFORT = 0.5
"""Part of the excess that must remain once the number of samples is taken out; else the share is to blame."""
RECENT_BLOCKS = 64
"""Over so many the figures are taken that are said."""
OTHERS = ("collective", "waiting")
"""Phases in which a rank waits for its peers."""
BLURRED = "step"
"""The phase that holds work and waiting alike."""


class Behind(msgspec.Struct, frozen=True):
    """A rank that is behind its peers."""

    rank: int
    phase: str | None
    """The phase that holds most of the excess; None when that cannot be told."""
    phase_seconds: float
    """A step's mean in that phase, or of its own time when the phase is unknown."""
    peer_seconds: float
    own: float
    """A step's mean own time."""
    peer_own: float
    since_at: int
    """Block in which it began, counted in the window."""
    since_step: int
    blocks: int
    strength: float
    """How far beyond what chance makes: 1 is the limit."""
    by_share: bool
    """It is slow because it has more samples than the others, and no slower for each of them."""


def own_times(view: Aligned) -> Array:
    """Own time a step without waiting for a core, which is the host's matter; rows times blocks.

    Where a rank cannot tell it, what it does know of its own phases; that compares ranks all the same.
    """
    own = view.plane(OWN)
    own = np.asarray(np.maximum(own - np.nan_to_num(view.plane(CORE_WAIT)), LEAST_OWN * own))
    missing = view.has & ~np.isfinite(own)
    if not missing.any():
        return own
    partial = np.zeros(own.shape)
    known = np.zeros(own.shape, bool)
    for name in own_phases(view):
        seconds = view.phase(name)
        known |= np.isfinite(seconds)
        partial += np.nan_to_num(seconds)
    return np.where(missing & known, partial, own)


def own_phases(view: Aligned) -> list[str]:
    """Names of the phases in which ranks work themselves."""
    return [name for name in view.window.names if name not in OTHERS and name != BLURRED]


class Judgement:
    """One look at who is behind.

    Args:
        view: blocks of the ranks to be compared.
        settled: step by rank from which on it may be found behind (again); what came before is settled.
    """

    def __init__(self, view: Aligned, settled: Mapping[int, int] | None = None) -> None:
        self._settled = settled or {}
        self.view = view
        self.own = own_times(view)
        self.peers = peer_medians(self.own)
        wall = view.plane(WALL)
        self.step_seconds = _middle(wall)
        self.excess = relative(self.own, self.peers, self.step_seconds)
        self.noise: Noise = noise_of(self.excess)
        self.scan: Scan = scan(self.excess, self.noise)
        self._least = self._fewest_blocks()

    def _fewest_blocks(self) -> int:
        block_s = self.step_seconds * self.view.window.stride
        return math.ceil(LEAST_SECONDS / block_s) if block_s > 0 else 1

    def behind(self) -> list[Behind]:
        """Ranks that stand out, the worst first."""
        limit = limit_for(len(self.excess))
        with np.errstate(invalid="ignore"):
            height = np.nan_to_num((self.scan.mean - LASTING) / self.scan.error) / limit
        found = [self._look(int(row), height[:, row]) for row in np.flatnonzero((height >= 1.0).any(axis=0))]
        return sorted((one for one in found if one is not None), key=lambda one: one.peer_own - one.own)

    def _look(self, row: int, height: Array) -> Behind | None:
        usable = self._blocks_since(self._settled.get(self.view.ranks[row], 0))
        for at in np.argsort(-height, kind="stable").tolist():
            blocks = self.scan.scales[at]
            if height[at] < 1.0 or not self._least <= blocks <= usable:
                continue
            if self._is_worth_it(row, blocks) and not self._is_low(row, blocks):
                return self.evidence(row, self._onset(row, blocks), strength=float(height[at]))
        return None

    def _is_worth_it(self, row: int, blocks: int) -> bool:
        """Whether the excess of the latest blocks is large enough to be said."""
        middle = _middle(self.excess[row, -blocks:])
        seconds = _middle(self.own[row, -blocks:] - self.peers[row, -blocks:])
        return middle >= LEAST_EXCESS and seconds >= LEAST_OF_STEP * self.step_seconds

    def _onset(self, row: int, blocks: int) -> int:
        """The block from which on the excess holds: where the sum of what lies above half of it is greatest."""
        bound = float(bound_of(self.noise)[row])
        middle = min(_middle(self.excess[row, -blocks:]), bound)
        usable = self._blocks_since(self._settled.get(self.view.ranks[row], 0))
        clipped = np.clip(np.nan_to_num(self.excess[row, -usable:]), -bound, bound) - middle / 2
        return len(self.view.ids) - 1 - int(np.argmax(np.cumsum(clipped[::-1])))

    def _onset_step(self, row: int, since: int) -> int:
        """The step: in a block of several, so far from its end as the block holds of the excess of those that follow."""
        stride = self.view.window.stride
        usual = _middle(self.excess[row, since + 1 :])
        part = self.excess[row, since] / usual if usual > 0 else 1.0
        late = round((1.0 - part) * stride) if math.isfinite(part) else 0
        return self.view.first_step(since) + min(max(late, 0), stride - 1)

    def evidence(self, row: int, since: int, strength: float = 1.0) -> Behind:
        """The figures of a rank from a block on."""
        own, peers = self.own[row, since:], self.peers[row, since:]
        phase, seconds, peer_seconds = self._phase(row, since, trimmed_mean(own - peers))
        mean, peer_mean = trimmed_mean(own), trimmed_mean(peers)
        return Behind(
            rank=self.view.ranks[row],
            phase=phase,
            phase_seconds=mean if phase is None else seconds,
            peer_seconds=peer_mean if phase is None else peer_seconds,
            own=mean,
            peer_own=peer_mean,
            since_at=since,
            since_step=self._onset_step(row, since),
            blocks=int(np.isfinite(own).sum()),
            strength=strength,
            by_share=self._is_by_share(row, since),
        )

    def _phase(self, row: int, since: int, excess: float) -> tuple[str | None, float, float]:
        """The phase with the largest excess, with the rank's mean and its peers'."""
        view = self.view.latest(len(self.view.ids) - since)
        best: tuple[float, str | None, float, float] = (0.0, None, math.nan, math.nan)
        for name in own_phases(view):
            seconds = view.phase(name)
            mine = trimmed_mean(seconds[row])
            peers = trimmed_mean(_others_median(seconds, row))
            if mine - peers > best[0]:
                best = (mine - peers, name, mine, peers)
        return best[1:] if best[0] >= excess / 4 else (None, math.nan, math.nan)

    def _is_by_share(self, row: int, since: int) -> bool:
        """Whether the excess goes away once each rank's time is divided by its samples."""
        samples = self.view.latest(len(self.view.ids) - since).plane(SAMPLES)
        mine, theirs = trimmed_mean(samples[row]), trimmed_mean(_others_median(samples, row))
        if not (mine > 0 and theirs > 0 and mine / theirs >= 1.1):
            return False
        excess = _middle(self.excess[row, since:])
        return excess - math.log(mine / theirs) < (1.0 - SAME_EFFORT) * excess

    def is_clear(self, rank: int, since_step: int) -> bool | None:
        """Whether a rank that was behind is so no longer; None when it cannot be judged now.

        Only blocks from `since_step` on count.
        """
        row = self.row_of(rank)
        if row is None:
            return None
        usable = self._blocks_since(since_step)
        if usable < max(CLEAR_BLOCKS, self._least):
            return None
        return self._is_low(row, usable) or self._is_small(row)

    def _blocks_since(self, step: int) -> int:
        return int(np.count_nonzero(self.view.ids * self.view.window.stride >= step))

    def _is_low(self, row: int, blocks: int) -> bool:
        """Whether the latest of these blocks, on any scale, are surely not behind."""
        with np.errstate(invalid="ignore"):
            highest = self.scan.mean[:, row] + CLEAR_ERRORS * self.scan.error[:, row]
        return any(
            highest[at] < LEAST_EXCESS for at, scale in enumerate(self.scan.scales) if self._least <= scale <= blocks
        )

    def _is_small(self, row: int) -> bool:
        """Whether what is left of the excess matters to nobody."""
        more = self.own[row, -CLEAR_BLOCKS:] - self.peers[row, -CLEAR_BLOCKS:]
        return _middle(more) < LEAST_OF_STEP / 2 * self.step_seconds

    def row_of(self, rank: int) -> int | None:
        """The row of a rank; None when it has none."""
        ranks = self.view.ranks
        return ranks.index(rank) if rank in ranks else None

    def gain(self, blamed: Collection[int], rank: int | None = None) -> float:
        """Seconds a step of the whole job would gain if these ranks, or one of them, were like the others."""
        means = {one: mean for one, mean in zip(self.view.ranks, self.own_means(), strict=True) if math.isfinite(mean)}
        gone = set(blamed) if rank is None else {rank}
        rest = [mean for one, mean in means.items() if one not in gone]
        return max(0.0, max(means.values()) - max(rest)) if rest and means else 0.0

    def own_means(self) -> list[float]:
        """Mean own time of each row over the latest blocks."""
        means: list[float] = _recent_means(self.own).tolist()
        return means

    @property
    def recent_step_seconds(self) -> float:
        """What a step takes over the latest blocks: what a gain is a part of.

        Of the slowest rank: where ranks wait for each other all take as long, and where they do not the job takes as long as it.
        """
        known = [mean for mean in _recent_means(self.view.plane(WALL)).tolist() if math.isfinite(mean)]
        return max(known, default=math.nan)


def _recent_means(values: Array) -> Array:
    recent = values[:, -RECENT_BLOCKS:]
    with np.errstate(invalid="ignore"):
        total, count = np.nansum(recent, axis=1), np.isfinite(recent).sum(axis=1)
        return np.where(count > 0, total / count, np.nan)


def relative(own: Array, peers: Array, step_seconds: float) -> Array:
    """Natural logarithm of how many times its peers' own time a rank's is; NaN where either is unknown or nothing.

    Peers that hardly work themselves vary by many times their own time, which matters to nobody: they count as if they
    needed half a step.
    """
    base = np.maximum(peers, step_seconds / 2) if math.isfinite(step_seconds) else peers
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (own - peers) / base
        return np.where((own > 0) & (peers > 0) & np.isfinite(ratio), np.log1p(ratio), np.nan)


def _others_median(values: Array, row: int) -> Array:
    """Median of the other rows in the blocks that the row has."""
    others = np.delete(values, row, axis=0)
    if not len(others):
        return np.full(values.shape[1], np.nan)
    return np.where(np.isfinite(values[row]), column_medians(others), np.nan)


def _middle(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
