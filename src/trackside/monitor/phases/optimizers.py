"""Steps of optimizers."""

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any

from trackside.monitor.guard import guarded_hook
from trackside.monitor.phases.borders import OPTIMIZED, OPTIMIZED_INSIDE, Borders
from trackside.monitor.phases.names import BACKWARD, OPTIMIZER
from trackside.monitor.phases.timed import TimedCall, TimedMethod
from trackside.monitor.phases.track import ENTER, LEAVE, Track


class OptimizerWatch:
    """Times the outermost step of any optimizer, by the hooks that torch has for all of them."""

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._torch, self._track, self._borders = torch, marks, borders
        self._inside: list[Any] = []
        self._stepped: set[int] = set()
        """Optimizers that stepped inside the scaler's step that is going on."""
        self._before: str | None = None

    def removals(self) -> list[Callable[[], object]]:
        """Hang the hooks up; return what takes them away."""
        module: Any = sys.modules["torch.optim.optimizer"]
        is_compiling: Callable[[], bool] = self._torch.compiler.is_dynamo_compiling
        return [
            module.register_optimizer_step_pre_hook(guarded_hook(self.begin, is_compiling)).remove,
            module.register_optimizer_step_post_hook(guarded_hook(self.end, is_compiling)).remove,
        ]

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's: a scaler may leave a step out, of which the hooks hear nothing."""
        scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
        return [TimedMethod(scaler, "step", self._begin_scaled)] if scaler is not None else []

    def _begin_scaled(self, original: Callable[..., Any], scaler: Any) -> TimedCall | None:
        if self._inside or not self._borders.is_ours or self._torch.compiler.is_dynamo_compiling():
            return None
        before, known = self._track.enter(OPTIMIZER), _settled(scaler)
        self._stepped.clear()
        call = TimedCall(original, scaler)
        call.end, call.about = self._end_scaled, (scaler, known, before)
        return call

    def _end_scaled(self, about: tuple[Any, set[int], str | None]) -> None:
        scaler, known, before = about
        self._track.leave(OPTIMIZER, before)
        for key in _settled(scaler) - known - self._stepped:
            self._borders.skipped(key)

    def begin(self, optimizer: Any) -> None:
        """An optimizer is about to step, perhaps called by another one."""
        borders = self._borders
        if get_ident() != borders.owner and not borders.adopt_thread():
            return
        borders.is_owner_known = True
        inside = self._inside
        if inside and optimizer in inside:  # it has left by an exception
            inside.clear()
        if not inside:
            marks = self._track
            self._before, marks.doing = marks.doing, OPTIMIZER
            marks.append((ENTER, monotonic(), OPTIMIZER))
        inside.append(optimizer)

    def end(self, optimizer: Any) -> None:
        """It has."""
        inside = self._inside
        if get_ident() != self._borders.owner or optimizer not in inside:
            return
        del inside[inside.index(optimizer) :]
        if inside:
            return
        marks, borders = self._track, self._borders
        marks.append((LEAVE, monotonic(), OPTIMIZER))
        marks.doing = self._before
        self._stepped.add(id(optimizer))
        if self._before == BACKWARD:
            borders.seen |= OPTIMIZED | OPTIMIZED_INSIDE
        elif borders.is_looping:
            borders.seen |= OPTIMIZED
        else:
            borders.optimized(optimizer)


def _settled(scaler: Any) -> set[int]:
    """The `id`s of the optimizers whose step in this iteration has been decided."""
    states = getattr(scaler, "_per_optimizer_states", {})
    return {key for key, state in states.items() if getattr(state.get("stage"), "name", None) == "STEPPED"}
