"""`StepTimes` of many ranks, joined into columns."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.wire.messages import StepTimes

Array = npt.NDArray[Any]

MOST_PHASES = 64
"""Phases a message may name; a message with more is malformed."""
HIGHEST_STEP = 1 << 53
LONGEST_S = 1e9
"""More than thirty years: longer durations are none."""
_UNKNOWN = np.float64(np.nan).tobytes()


class Entries(msgspec.Struct, frozen=True):
    """Entries of any ranks, in the order in which they came; all columns have the same length."""

    phases: tuple[str, ...]
    rank: Array
    """int64."""
    step: Array
    """int64, the last step of the entry."""
    count: Array
    """float64, steps in the entry."""
    ended_at: Array
    wall: Array
    """Seconds of all its steps, like the following."""
    own: Array
    """NaN when it cannot be told."""
    samples: Array
    """float64, NaN when nobody counted."""
    core_wait: Array
    """NaN when unknown."""
    seconds: Array
    """Entries times phases, NaN when unknown."""

    def __len__(self) -> int:
        return len(self.rank)

    def at(self, places: Array) -> "Entries":
        """The entries of these places, or where a mask is true."""
        columns = {name: getattr(self, name)[places] for name in self.__struct_fields__ if name != "phases"}
        return Entries(self.phases, **columns)


def is_whole(message: StepTimes) -> bool:
    """Whether the lengths of a message's columns agree."""
    count, torn = divmod(len(message.step), 8)
    return (
        not torn
        and len(message.phases) <= MOST_PHASES
        and len(message.count) == 4 * count
        and len(message.seconds) == 8 * count * len(message.phases)
        and len(message.core_wait) in (0, 8 * count)
        and all(len(column) == 8 * count for column in (message.ended_at, message.wall, message.own, message.samples))
    )


def join(pending: Sequence[tuple[int, StepTimes]]) -> list[Entries]:
    """Join messages of (rank, message), those with the same phases into one; each must be whole."""
    alike: dict[tuple[str, ...], list[tuple[int, StepTimes]]] = {}
    for rank, message in pending:
        alike.setdefault(tuple(message.phases), []).append((rank, message))
    return [_clean(_joined(phases, group)) for phases, group in alike.items()]


def _joined(phases: tuple[str, ...], group: list[tuple[int, StepTimes]]) -> Entries:
    samples = np.frombuffer(b"".join([message.samples for _, message in group]), "<i8").astype(np.float64)
    seconds = np.frombuffer(b"".join([message.seconds for _, message in group]), "<f8")
    lengths = [len(message.step) // 8 for _, message in group]
    return Entries(
        phases=phases,
        rank=np.repeat(np.array([rank for rank, _ in group], np.int64), lengths),
        step=np.frombuffer(b"".join([message.step for _, message in group]), "<i8"),
        count=np.frombuffer(b"".join([message.count for _, message in group]), "<u4").astype(np.float64),
        ended_at=np.frombuffer(b"".join([message.ended_at for _, message in group]), "<f8"),
        wall=np.frombuffer(b"".join([message.wall for _, message in group]), "<f8"),
        own=known_times(np.frombuffer(b"".join([message.own for _, message in group]), "<f8")),
        samples=np.where(samples < 0, np.nan, samples),
        core_wait=known_times(np.frombuffer(b"".join([_core_wait(message) for _, message in group]), "<f8")),
        seconds=known_times(seconds).reshape(sum(lengths), len(phases)),
    )


def _core_wait(message: StepTimes) -> bytes:
    return message.core_wait or _UNKNOWN * (len(message.step) // 8)


def known_times(seconds: Array) -> Array:
    """The durations, with NaN for what can be none."""
    with np.errstate(invalid="ignore"):
        return np.where((seconds >= 0) & (seconds < LONGEST_S), seconds, np.nan)


def _clean(entries: Entries) -> Entries:
    """Leave out what says nothing: no step, no steps, or no wall time."""
    says = (entries.step >= 0) & (entries.step < HIGHEST_STEP) & (entries.count > 0)
    says &= np.isfinite(known_times(entries.wall)) & np.isfinite(entries.ended_at)
    return entries if says.all() else entries.at(says)
