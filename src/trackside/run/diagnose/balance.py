"""The batch's shares: who has how much of it, and which split would equalise the ranks' times."""

import math

import msgspec
import numpy as np

from trackside.run.diagnose.blame import Judgement
from trackside.run.diagnose.entries import Array
from trackside.run.diagnose.window import SAMPLES

BLOCKS = 64
FEWEST_BLOCKS = 12
LEAST_GAIN = 0.03
"""Part of the step that another split must gain to be worth a word."""
UNEQUAL = math.log(1.25)
"""How far a share must lie off the one that would equalise the times."""
EVEN_SPEED = math.log(1.2)
"""Ranks whose speeds differ by less are equally fast."""
SURE_ERRORS = 5.0


class Balance(msgspec.Struct, frozen=True):
    """Shares as they are and as they should be; all columns in the order of `ranks`."""

    ranks: list[int]
    share: Array
    suggested: Array
    samples: Array
    """Mean a step."""
    own: Array
    """Mean own seconds a step."""
    gain_seconds: float
    """What a step would gain."""
    blocks: int
    uneven: int | None
    """Place of the rank whose share is wrong while its speed is like its peers'; None when there is none."""


def balance_of(judgement: Judgement) -> Balance | None:
    """Measure the shares; None when samples or times of a rank are unknown, or a rank is alone."""
    view = judgement.view.latest(BLOCKS)
    blocks = len(view.ids)
    if len(view.rows) < 2 or blocks < FEWEST_BLOCKS:
        return None
    samples, own = _means(view.plane(SAMPLES)), _means(judgement.own[:, -BLOCKS:])
    if not (np.all(samples > 0) and np.all(own > 0)):
        return None
    speed = samples / own
    share, suggested = samples / samples.sum(), speed / speed.sum()
    gain = float(own.max() - samples.sum() / speed.sum())
    return Balance(
        ranks=view.ranks,
        share=share,
        suggested=suggested,
        samples=samples,
        own=own,
        gain_seconds=max(0.0, gain),
        blocks=blocks,
        uneven=_uneven(judgement, samples, speed, np.log(suggested / share), blocks),
    )


def _uneven(judgement: Judgement, samples: Array, speed: Array, off: Array, blocks: int) -> int | None:
    """The place of the rank with the wrong share, when it is neither slower nor faster than the others."""
    at = int(np.argmax(np.abs(off)))
    error = float(np.max(judgement.noise.spread)) / math.sqrt(blocks)
    if abs(off[at]) < max(UNEQUAL, SURE_ERRORS * error):
        return None
    others = np.delete(samples, at)
    differs = abs(math.log(samples[at] / float(np.median(others))))
    speeds = abs(math.log(speed[at] / float(np.median(np.delete(speed, at)))))
    return at if differs >= UNEQUAL and speeds <= EVEN_SPEED else None


def is_worth_it(balance: Balance, step_seconds: float) -> bool:
    """Whether another split would gain enough."""
    return balance.gain_seconds >= LEAST_GAIN * step_seconds


def _means(values: Array) -> Array:
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known.sum(axis=1) * 2 >= values.shape[1], np.nansum(values, axis=1) / known.sum(axis=1), np.nan)
