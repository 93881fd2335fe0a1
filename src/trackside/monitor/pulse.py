"""What a rank is doing and for how long: the running totals that its heartbeat carries."""

import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field

RECENT_STEPS = 50


@dataclass(slots=True)
class Pulse:
    """Totals of one process.

    Threads: the training thread writes, the send thread reads; single fields are never torn.
    """

    step: int | None = None
    epoch: int | None = None
    phase: str | None = None
    batches: int = 0
    samples: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    work_seconds: float = 0.0
    own_known: bool = True
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    def add_step(self, data_s: float, step_s: float, cpu_s: float, samples: int | None) -> None:
        """One batch: waiting for data, the step itself on the wall, and the training thread's CPU time in it."""
        self.batches += 1
        if samples is not None:
            self.samples = (self.samples or 0) + samples
        own = own_seconds(step_s, cpu_s)
        self._spend("data", data_s)
        if own is None:
            self.own_known = False
            self._spend("step", step_s)
        else:
            self._spend("compute", own)
            self._spend("waiting", max(0.0, step_s - own))
            self.work_seconds += data_s + own
        self._recent.append((data_s + step_s, data_s + own if own is not None else -1.0))

    def _spend(self, phase: str, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def step_means(self) -> tuple[float | None, float | None]:
        """Mean wall and own seconds of the last steps."""
        recent = list(self._recent)
        if not recent:
            return None, None
        wall = sum(entry[0] for entry in recent) / len(recent)
        own = None if any(entry[1] < 0 for entry in recent) else sum(entry[1] for entry in recent) / len(recent)
        return wall, own


def own_seconds(step_s: float, cpu_s: float) -> float | None:
    """A step's own working time, without waiting for peers; None when it cannot be told.

    Without a process group nobody is waited for. On CPU a wait in a collective sleeps, so the training thread's CPU time
    is what the rank did itself. On a GPU the host's clocks say nothing about the device's work.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return step_s
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return None
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return step_s
    return min(cpu_s, step_s)


def thread_cpu_seconds() -> float:
    """CPU time of the calling thread."""
    return time.thread_time()


def count_samples(batch: object) -> int | None:
    """Length of the first tensor, array or list in a batch along its first dimension; None when there is none."""
    for _ in range(4):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
        if isinstance(batch, dict):
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


def is_main_thread() -> bool:
    """Whether the caller is the main thread."""
    return threading.current_thread() is threading.main_thread()
