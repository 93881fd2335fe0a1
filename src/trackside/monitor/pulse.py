"""What a rank is doing and for how long: the running totals that its heartbeat carries."""

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.monitor.intake import INT64, whole_number

RECENT_STEPS = 50
BETWEEN = "between steps"
_MOST_NESTED = 4


@dataclass(slots=True)
class Pulse:
    """Totals of one process.

    Threads: the training thread writes, the send thread reads; single fields are never torn.
    """

    step: object = None
    """As the user gave it last; whether it is a step at all is found later."""
    epoch: int | None = None
    phase: str | None = None
    batches: int = 0
    samples: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds in `data`, and in `step`, or, when they can be told apart, in `compute` and `waiting`."""
    work_seconds: float = 0.0
    is_work_known: bool = True
    _recent: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    @property
    def known_step(self) -> int | None:
        """The last step; None without one."""
        return whole_number(self.step, INT64)

    @property
    def last_step(self) -> int:
        """The last step; 0 without one."""
        return self.known_step or 0

    def add_step(self, data_s: float, step_s: float, cpu_s: float, samples: int | None) -> None:
        """One batch: waiting for data, the step itself on the wall, and the training thread's CPU time in it."""
        self.batches += 1
        if samples is not None:
            self.samples = (self.samples or 0) + samples
        own_s = own_seconds(step_s, cpu_s)
        self._spend("data", data_s)
        if own_s is None:
            self.is_work_known = False
            self._spend("step", step_s)
        else:
            self._spend("compute", own_s)
            self._spend("waiting", step_s - own_s)
            self.work_seconds += data_s + own_s
        self._recent.append((data_s + step_s, None if own_s is None else data_s + own_s))

    def _spend(self, phase: str, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def step_means(self) -> tuple[float | None, float | None]:
        """Mean wall and own seconds of the last steps; None without any, and where own time cannot be told."""
        recent = list(self._recent)
        if not recent:
            return None, None
        own = [own_s for _, own_s in recent if own_s is not None]
        wall = sum(wall_s for wall_s, _ in recent) / len(recent)
        return wall, sum(own) / len(own) if len(own) == len(recent) else None


def own_seconds(step_s: float, cpu_s: float) -> float | None:
    """A step's own working time, without waiting for peers; None when it cannot be told.

    Without a process group nobody is waited for. On CPU a wait in a collective sleeps, so the training thread's CPU time
    is what the rank did itself. On a GPU the host's clocks say nothing about the device's work.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return None
    if world_of(torch) <= 1:
        return step_s
    return min(cpu_s, step_s)


def world_of(torch: object) -> int:
    """Size of torch's process group, 1 without one. Calls no collective."""
    distributed = sys.modules.get("torch.distributed") if torch is not None else None
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def count_samples(batch: object) -> int | None:
    """Length of the first tensor, array or list in a batch along its first dimension; None when there is none."""
    for _ in range(_MOST_NESTED):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
        if isinstance(batch, Mapping):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)):
            if not batch:
                return None
            if isinstance(batch[0], (int, float, str, bytes)):
                return len(batch)
            batch = batch[0]
        else:
            return None
    return None
