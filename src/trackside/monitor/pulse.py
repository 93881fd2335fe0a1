"""What a rank is doing and for how long: the running totals that its heartbeat carries."""

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.monitor.intake import INT64, whole_number

RECENT_STEPS = 50
_MOST_NESTED = 4


@dataclass(slots=True)
class OwnWork:
    """A rank's own working time between two moments, filled in on the send thread."""

    began: tuple[float, int] | None = None
    """Seconds until then, and steps whose own time was not known."""
    ended: tuple[float, int] | None = None

    @property
    def seconds(self) -> float | None:
        """None while it is not over, and when that of a step in it is not known."""
        if self.began is None or self.ended is None or self.began[1] != self.ended[1]:
            return None
        return self.ended[0] - self.began[0]


@dataclass(slots=True)
class Pulse:
    """Totals of one process.

    Threads: the training thread counts, the send thread adds times up and reads; single fields are never torn.
    """

    step: object = None
    """As the user gave it last; whether it is a step at all is found later."""
    epoch: int | None = None
    batches: int = 0
    samples: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of all steps, by phase."""
    work_seconds: float = 0.0
    unknown_steps: int = 0
    """Steps whose own time is not known, and not in `work_seconds`."""
    _recent: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    @property
    def known_step(self) -> int | None:
        """The last step; None without one."""
        return whole_number(self.step, INT64)

    @property
    def last_step(self) -> int:
        """The last step; 0 without one."""
        return self.known_step or 0

    def add_step(self, wall_s: float, own_s: float | None) -> None:
        """One step: all of it, and without waiting for peers."""
        if own_s is None:
            self.unknown_steps += 1
        else:
            self.work_seconds += own_s
        self._recent.append((wall_s, own_s))

    def add_phases(self, steps: Iterable[Mapping[str, float]]) -> None:
        """Seconds of several steps by phase."""
        alike: dict[tuple[str, ...], list[Iterable[float]]] = {}
        for seconds in steps:
            alike.setdefault(tuple(seconds), []).append(seconds.values())
        for names, rows in alike.items():
            for name, column in zip(names, zip(*rows, strict=True), strict=True):
                self.phases[name] = self.phases.get(name, 0.0) + sum(column)

    def measure(self, work: OwnWork, *, is_end: bool) -> None:
        """All steps before this moment have been added."""
        now = (self.work_seconds, self.unknown_steps)
        if is_end:
            work.ended = now
        else:
            work.began = now

    def step_means(self) -> tuple[float | None, float | None]:
        """Mean wall and own seconds of the last steps; None without any, and where own time cannot be told."""
        recent = list(self._recent)
        if not recent:
            return None, None
        own = [own_s for _, own_s in recent if own_s is not None]
        wall = sum(wall_s for wall_s, _ in recent) / len(recent)
        return wall, sum(own) / len(own) if len(own) == len(recent) else None


def has_peers() -> bool:
    """Whether torch has a process group of more than this process. Calls no collective."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not getattr(distributed, "is_initialized", bool)():
        return False
    return int(distributed.get_world_size()) > 1


def has_device() -> bool:
    """Whether CUDA works for this process. Creates no context."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(getattr(cuda, "is_initialized", bool)())


def count_samples(batch: object) -> int | None:
    """Length of the first tensor, array or list in a batch along its first dimension; None when there is none."""
    kind = type(batch)
    shape = getattr(batch[0] if (kind is tuple or kind is list) and batch else batch, "shape", None)  # type: ignore[index]
    if shape:  # what a batch is most often, in the fewest steps
        return int(shape[0])
    for _ in range(_MOST_NESTED):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
        if isinstance(batch, (list, tuple)):
            if not batch:
                return None
            if isinstance(batch[0], (int, float, str, bytes)):
                return len(batch)
            batch = batch[0]
        elif isinstance(batch, Mapping):
            batch = next(iter(batch.values()), None)
        else:
            return None
    return None
