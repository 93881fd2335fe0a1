"""Steps of optimizers."""

import sys
from collections.abc import Callable
from typing import Any

from trackside.monitor.guard import guarded
from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.names import BACKWARD, OPTIMIZER
from trackside.monitor.phases.track import Track


class OptimizerWatch:
    """Times the outermost step of any optimizer, by the hooks that torch has for all of them."""

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._torch, self._track, self._borders = torch, marks, borders
        self._inside: list[Any] = []
        self._before: str | None = None

    def removals(self) -> list[Callable[[], object]]:
        """Hang the hooks up; return what takes them away."""
        module: Any = sys.modules["torch.optim.optimizer"]
        is_compiling = self._torch.compiler.is_dynamo_compiling

        def begin(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if is_compiling():
                return
            self.begin(optimizer)

        def end(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if is_compiling():
                return
            self.end(optimizer)

        return [
            module.register_optimizer_step_pre_hook(begin).remove,
            module.register_optimizer_step_post_hook(end).remove,
        ]

    @guarded
    def begin(self, optimizer: Any) -> None:
        """An optimizer is about to step, perhaps called by another one."""
        if not self._borders.adopt_thread():
            return
        if optimizer in self._inside:  # it has left by an exception
            self._inside.clear()
        if not self._inside:
            self._before = self._track.enter(OPTIMIZER)
        self._inside.append(optimizer)

    @guarded
    def end(self, optimizer: Any) -> None:
        """It has."""
        if not self._borders.is_ours or optimizer not in self._inside:
            return
        del self._inside[self._inside.index(optimizer) :]
        if not self._inside:
            self._track.leave(OPTIMIZER, self._before)
            self._borders.optimized(optimizer, in_backward=self._before == BACKWARD)
