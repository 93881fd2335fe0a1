"""Steps of optimizers."""

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any

from trackside.monitor.guard import FAULTS
from trackside.monitor.phases.borders import OPTIMIZED, OPTIMIZED_INSIDE, Borders
from trackside.monitor.phases.names import BACKWARD, OPTIMIZER
from trackside.monitor.phases.timed import TimedCall, TimedMethod
from trackside.monitor.phases.track import ENTER, LEAVE, Track


class OptimizerWatch:
    """Times the outermost step of any optimizer, by the hooks that torch has for all of them."""

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._track, self._borders = marks, borders
        self._inside: list[Any] = []
        self._stepped: set[int] = set()
        """Optimizers that stepped inside the scaler's step that is going on."""
        self._before: str | None = None
        self._is_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling

    def removals(self) -> list[Callable[[], object]]:
        """Hang the hooks up; return what takes them away."""
        module: Any = sys.modules["torch.optim.optimizer"]
        return [
            module.register_optimizer_step_pre_hook(self.begin).remove,
            module.register_optimizer_step_post_hook(self.end).remove,
        ]

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's: a scaler may leave a step out, of which the hooks hear nothing."""
        scaler = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
        return [TimedMethod(scaler, "step", self._begin_scaled)] if scaler is not None else []

    def _begin_scaled(self, original: Callable[..., Any], scaler: Any) -> TimedCall | None:
        if self._inside or not self._borders.is_ours or self._is_compiling():
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

    # One function at each end, guard and all, for what is met here is in no cache: see `Borders`.

    def begin(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """An optimizer is about to step, perhaps called by another one."""
        if self._is_compiling():  # nothing of ours gets into a graph
            return
        try:
            borders, inside = self._borders, self._inside
            if get_ident() != borders.owner and not borders.adopt_thread():
                return
            borders.is_owner_known = True
            if inside and optimizer in inside:  # it has left by an exception
                inside.clear()
            if not inside:
                marks = self._track
                self._before, marks.doing = marks.doing, OPTIMIZER
                marks.append((ENTER, monotonic(), OPTIMIZER))
            inside.append(optimizer)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note("begin of an optimizer's step", error)

    def end(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """It has."""
        if self._is_compiling():
            return
        try:
            borders, inside = self._borders, self._inside
            if get_ident() != borders.owner or optimizer not in inside:
                return
            del inside[inside.index(optimizer) :]
            if inside:
                return
            marks = self._track
            marks.append((LEAVE, monotonic(), OPTIMIZER))
            before = marks.doing = self._before
            self._stepped.add(id(optimizer))
            if before == BACKWARD:
                borders.seen |= OPTIMIZED | OPTIMIZED_INSIDE
            elif borders.is_looping:
                borders.seen |= OPTIMIZED
            else:
                borders.optimized(optimizer)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note("end of an optimizer's step", error)


def _settled(scaler: Any) -> set[int]:
    """The `id`s of the optimizers whose step in this iteration has been decided."""
    states = getattr(scaler, "_per_optimizer_states", {})
    return {key for key, state in states.items() if getattr(state.get("stage"), "name", None) == "STEPPED"}
