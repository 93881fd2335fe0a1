"""The training loop as a rank sees it: steps counted, batches timed."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from trackside.monitor.phases.recorder import Recorder

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

    def __init__(self, loader: Iterable[T], recorder: Recorder, counter: StepCounter) -> None:
        self._loader, self._recorder, self._counter = loader, recorder, counter

    def __len__(self) -> int:
        """Batches of the loader. Raises: TypeError when it does not know."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        counter, borders = self._counter, self._recorder.borders
        counter.enter_loop()
        self._recorder.enter_loop()
        try:
            borders.ask()
            for batch in self._loader:
                borders.got()
                self._recorder.pulse.step = counter.step
                try:
                    yield batch
                finally:  # also when the loop is left in the middle of this batch
                    step = counter.step
                    counter.step = step + 1
                    borders.close_batch(step, batch)
                borders.ask()
        finally:
            counter.leave_loop()
            borders.leave_loop()
