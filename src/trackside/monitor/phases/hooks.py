"""The hooks in torch: what is hung in where, and how it is taken out again."""

import sys
from collections.abc import Callable
from typing import Protocol

from trackside.monitor.guard import guarded
from trackside.monitor.phases.backward import BackwardWatch
from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.device import DeviceClock
from trackside.monitor.phases.forward import COMPILER, OutermostForward
from trackside.monitor.phases.imports import ImportWatch
from trackside.monitor.phases.loader import LoaderWatch
from trackside.monitor.phases.optimizers import OptimizerWatch
from trackside.monitor.phases.timed import TimedMethod
from trackside.monitor.phases.track import Track
from trackside.monitor.phases.transfers import TransferWatch
from trackside.monitor.phases.waits import WaitWatch
from trackside.monitor.pulse import has_device


class MethodWatch(Protocol):
    """What times methods of torch."""

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        ...


class TorchHooks:
    """Everything of ours in torch, from `install` to `remove`.

    Threads: `install` belongs to the user's; `remove` may be called from any.
    """

    def __init__(self, marks: Track, borders: Borders) -> None:
        self._track, self._borders = marks, borders
        self._removals: list[Callable[[], object]] = []
        self._awaited: set[str] = set()
        self._is_installed = self._sees_transfers = False

    @guarded
    def install(self) -> None:
        """Watch torch, if it has been imported. Idempotent."""
        if self._is_installed or not self._track.is_on:
            return
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "compile"):  # defined last: before, the import is still going on
            self._wait_for("torch", self.install)
            return
        self._is_installed = True
        forward = OutermostForward(torch, self._track, self._borders)
        self._watch_forward(forward)
        optimizers = OptimizerWatch(torch, self._track, self._borders)
        self._watch_optimizers(optimizers)
        self._watch_methods(optimizers)
        self._watch_methods(BackwardWatch(torch, self._track, self._borders, forward))
        self._watch_methods(LoaderWatch(self._borders))
        waits = WaitWatch(self._track, self._borders)
        self._watch_methods(waits)
        self._borders.sees_waits = waits.sees_all
        if COMPILER not in sys.modules:
            self._wait_for(COMPILER, forward.watch_compiled)

    @guarded
    def look_for_device(self) -> None:
        """Measure a device's own time from when it is first used; nothing of ours ever makes a context on one."""
        torch = sys.modules.get("torch")
        if not self._is_installed or self._track.clock is not None or not has_device():
            return
        if torch is not None:
            self._track.clock = DeviceClock(torch.cuda)
            if not self._sees_transfers:
                self._sees_transfers = True
                self._watch_methods(TransferWatch(torch, self._track, self._borders))

    @guarded
    def _wait_for(self, name: str, then: Callable[[], None]) -> None:
        if name not in self._awaited:
            self._awaited.add(name)
            imports = ImportWatch(name, then)
            imports.install()
            self._removals.append(imports.remove)

    # Each by itself: what a version of torch does not have leaves the others as they are.

    @guarded
    def _watch_forward(self, forward: OutermostForward) -> None:
        self._removals.append(forward.remove)
        self._borders.watch = forward

    @guarded
    def _watch_optimizers(self, optimizers: OptimizerWatch) -> None:
        self._removals += optimizers.removals()

    @guarded
    def _watch_methods(self, watch: MethodWatch) -> None:
        for method in watch.methods():
            method.install()
            self._removals.append(method.remove)

    def remove(self) -> None:
        """Put everything back. Idempotent."""
        while self._removals:
            self._remove(self._removals.pop())

    @guarded
    def _remove(self, removal: Callable[[], object]) -> None:
        removal()
