"""The training loop as a rank sees it: steps counted, batches timed."""

import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from trackside.monitor.guard import guarded
from trackside.monitor.pulse import BETWEEN, Pulse, count_samples

T = TypeVar("T")


class StepCounter:
    """The step of a call that names none: the batch inside `batches()`, else the count of calls."""

    __slots__ = ("_loops", "step")

    def __init__(self) -> None:
        self.step = 0
        self._loops = 0

    def next(self) -> int:
        """The step of a call to `log`."""
        step = self.step
        if not self._loops:
            self.step = step + 1
        return step

    def enter_loop(self) -> None:
        """From now on batches count, not calls; loops may be nested."""
        self._loops += 1

    def leave_loop(self) -> None:
        """The loop has ended."""
        self._loops -= 1


class BatchLoop(Generic[T]):
    """A loader whose batches are timed and counted. Iterating it again begins the loader again."""

    def __init__(self, loader: Iterable[T], pulse: Pulse, counter: StepCounter) -> None:
        self._loader, self._pulse, self._counter = loader, pulse, counter

    def __len__(self) -> int:
        """Batches of the loader. Raises: TypeError when it does not know."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        pulse, counter = self._pulse, self._counter
        counter.enter_loop()
        try:
            pulse.phase = "data"
            asked = time.monotonic()
            for batch in self._loader:
                began, cpu_s = time.monotonic(), time.thread_time()
                pulse.phase, pulse.step = "step", counter.step
                try:
                    yield batch
                finally:  # also when the loop is left in the middle of this batch
                    self._end_step(asked, began, cpu_s, batch)
                pulse.phase = "data"
                asked = time.monotonic()
        finally:
            counter.leave_loop()
            pulse.phase = BETWEEN

    @guarded
    def _end_step(self, asked: float, began: float, cpu_s: float, batch: object) -> None:
        self._counter.step += 1
        spent_s = time.thread_time() - cpu_s
        self._pulse.add_step(began - asked, time.monotonic() - began, spent_s, count_samples(batch))
