"""The outermost forward: of a whole model, a criterion, each module that is called by the user's own code."""

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any

from trackside.monitor.guard import FAULTS, guarded
from trackside.monitor.phases.borders import EVALUATED, Borders
from trackside.monitor.phases.names import FORWARD
from trackside.monitor.phases.timed import TimedMethod
from trackside.monitor.phases.track import ENTER, LEAVE, Track

COMPILER = "torch._dynamo.eval_frame"
"""The module that holds what `torch.compile` makes of a module; it is imported when it is needed."""


class OutermostForward:
    """Times the outermost modules and costs the inner ones nothing.

    Torch has a hook for the forward of any module, and while there is one, every module takes a slow path. So ours is
    taken away as soon as it has been called, and hung up again when that module returns, which a hook of the module
    itself tells, hung up for this one call. It is away as well while a batch is made, or gradients: transforms are
    modules too, and checkpointing calls them again.

    `torch.compile` warns where there are hooks for all modules: for its own, the hook is away before it looks.

    One function at each end, guard and all, for what is met here is in no cache: see `Borders`.

    Threads: the training thread; others are not looked at.
    """

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._torch, self._track, self._borders = torch, marks, borders
        self._has_gradients: Callable[[], bool] = torch.is_grad_enabled
        self._is_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling
        everywhere = torch.nn.modules.module.register_module_forward_pre_hook(self.begin)
        self._everywhere, self._number = everywhere.hooks_dict_ref(), everywhere.id
        self._gate = borders.gate
        self._gate.table, self._gate.number = self._everywhere, self._number
        self._gate.hook = self._everywhere[self._number]
        self._end_hook = self._end
        self._ends: dict[int, tuple[Any, int]] = {}
        """By `id` of a module: its table of hooks, and the place there of the one that tells when it returns."""
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._before: str | None = None
        self._is_evaluation = False
        self._is_removed = False
        self._compiled: TimedMethod | None = None
        if COMPILER in sys.modules:
            self.watch_compiled()

    # Hooks keep their places in torch's tables. With another number each time, what `torch.compile` has made of a
    # function that calls a module would be made again for every call, and a new handle costs ten times as much.

    def remove(self) -> None:
        """Take everything away."""
        self._is_removed = True
        self._gate.remove()
        if self._compiled is not None:
            self._compiled.remove()

    def begin(self, module: Any, _args: Any = None) -> None:
        """A module is called, and no other is."""
        if self._is_compiling():  # nothing of ours gets into a graph
            return
        try:
            borders = self._borders
            if get_ident() != borders.owner:
                return
            gate, marks = borders.gate, self._track
            self._everywhere.pop(self._number, None)
            if gate.inside is not None:  # the last one has left by an exception
                marks.leave(FORWARD, self._before)
                gate.forget_inside()
            if borders.is_outside:
                borders.open()
            self._before, marks.doing = marks.doing, FORWARD
            marks.append((ENTER, monotonic(), FORWARD))
            self._is_evaluation = not (module.training and self._has_gradients())
            inside = self._ends.get(id(module))
            if inside is not None and inside[0] is module.__dict__.get("_forward_hooks"):
                gate.inside = inside
                inside[0][inside[1]] = self._end_hook
            else:
                self._meet(module)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note("begin of a forward", error)

    def _meet(self, module: Any) -> None:
        """Hang up the hook that tells when it returns, for the first time."""
        key = id(module)
        try:
            handle = module.register_forward_hook(self._end_hook)
        except RuntimeError:  # a ScriptModule takes no hooks: it is in the rest of the step
            self._track.leave(FORWARD, self._before)
            self._gate.open()
            return
        self._gate.inside = self._ends[key] = (handle.hooks_dict_ref(), handle.id)
        self._alive[key] = weakref.ref(module, lambda _: self._forget(key))

    def _forget(self, key: int) -> None:
        self._ends.pop(key, None)
        self._alive.pop(key, None)

    def _end(self, _module: Any, _args: Any, _output: Any) -> None:
        try:
            marks, borders = self._track, self._borders
            marks.append((LEAVE, monotonic(), FORWARD))
            marks.doing = self._before
            if self._is_evaluation:
                borders.seen |= EVALUATED
            gate = borders.gate
            inside, gate.inside = gate.inside, None
            if inside is not None:
                inside[0].pop(inside[1], None)
            gate.table[gate.number] = gate.hook
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note("end of a forward", error)

    @guarded
    def watch_compiled(self) -> None:
        """What `torch.compile` makes of a module can be watched, now that the compiler is there."""
        if self._compiled is not None or self._is_removed:
            return
        compiled = sys.modules[COMPILER].OptimizedModule
        self._compiled = TimedMethod(compiled, "__call__", self._begin_compiled)
        self._compiled.install()

    def _begin_compiled(self, _original: Any, module: Any) -> None:
        if self._gate.is_open:
            self.begin(module)
