"""The outermost forward: of a whole model, a criterion, each module that is called by the user's own code."""

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any

from trackside.monitor.guard import guarded, guarded_hook
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

    Few functions, for what is met here is in no cache: see `Borders`.

    Threads: the training thread; others are not looked at.
    """

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._torch, self._track, self._borders = torch, marks, borders
        self._has_gradients: Callable[[], bool] = torch.is_grad_enabled
        self._hook = guarded_hook(self.begin, torch.compiler.is_dynamo_compiling)
        everywhere = torch.nn.modules.module.register_module_forward_pre_hook(self._hook)
        self._everywhere, self._number = everywhere.hooks_dict_ref(), everywhere.id
        self._is_armed = True
        self._end_hook = self._end
        self._ends: dict[int, Any] = {}
        """By `id` of a module: the handle of the hook that tells when it returns."""
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._here: tuple[Any, int] | None = None
        """Where the one is that is hung up now."""
        self._before: str | None = None
        self._is_evaluation = False
        self._is_removed = False
        self._compiled: TimedMethod | None = None
        if COMPILER in sys.modules:
            self.watch_compiled()

    # Hooks keep their places in torch's tables. With another number each time, what `torch.compile` has made of a
    # function that calls a module would be made again for every call, and a new handle costs ten times as much.

    def arm(self) -> None:
        """From now on the next module called is an outermost one."""
        if self._here is not None:  # it has left by an exception
            self._take_end_away()
        if not self._is_armed and not self._is_removed:
            self._is_armed = True
            self._everywhere[self._number] = self._hook

    def disarm(self) -> None:
        """From now on modules are not looked at."""
        if self._is_armed:
            self._is_armed = False
            self._everywhere.pop(self._number, None)

    def remove(self) -> None:
        """Take everything away."""
        self._is_removed = True
        self.disarm()
        self._take_end_away()
        if self._compiled is not None:
            self._compiled.remove()

    def begin(self, module: Any) -> None:
        """A module is called, and no other is."""
        marks, borders = self._track, self._borders
        if get_ident() != borders.owner:
            return
        if self._is_armed:
            self._is_armed = False
            self._everywhere.pop(self._number, None)
        if self._here is not None:
            marks.leave(FORWARD, self._before)
            self._take_end_away()
        if borders.is_outside:
            borders.open()
        self._before, marks.doing = marks.doing, FORWARD
        marks.append((ENTER, monotonic(), FORWARD))
        self._is_evaluation = not (module.training and self._has_gradients())
        table, handle = module.__dict__.get("_forward_hooks"), self._ends.get(id(module))
        if handle is not None and table is not None and handle.hooks_dict_ref() is table:
            table[handle.id] = self._end_hook
            self._here = (table, handle.id)
        else:
            self._meet(module)

    def _meet(self, module: Any) -> None:
        """Hang up the hook that tells when it returns, for the first time."""
        key = id(module)
        try:
            handle = module.register_forward_hook(self._end_hook)
        except RuntimeError:  # a ScriptModule takes no hooks: it is in the rest of the step
            self._track.leave(FORWARD, self._before)
            self.arm()
            return
        self._ends[key], self._here = handle, (handle.hooks_dict_ref(), handle.id)
        self._alive[key] = weakref.ref(module, lambda _: self._forget(key))

    def _forget(self, key: int) -> None:
        self._ends.pop(key, None)
        self._alive.pop(key, None)

    def _take_end_away(self) -> None:
        here, self._here = self._here, None
        if here is not None:
            here[0].pop(here[1], None)

    @guarded
    def _end(self, _module: Any, _args: Any, _output: Any) -> None:
        marks = self._track
        marks.append((LEAVE, monotonic(), FORWARD))
        marks.doing = self._before
        if self._is_evaluation:
            self._borders.seen |= EVALUATED
        here, self._here = self._here, None
        if here is not None:
            here[0].pop(here[1], None)
        if not self._is_removed:
            self._is_armed = True
            self._everywhere[self._number] = self._hook

    @guarded
    def watch_compiled(self) -> None:
        """What `torch.compile` makes of a module can be watched, now that the compiler is there."""
        if self._compiled is not None or self._is_removed:
            return
        compiled = sys.modules[COMPILER].OptimizedModule
        self._compiled = TimedMethod(compiled, "__call__", self._begin_compiled)
        self._compiled.install()

    def _begin_compiled(self, _original: Any, module: Any) -> None:
        if self._is_armed:
            self._hook(module)
