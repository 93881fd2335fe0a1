"""The outermost forward: of a whole model, a criterion, each module that is called by the user's own code."""

import sys
from typing import Any
from weakref import WeakKeyDictionary

from trackside.monitor.guard import guarded
from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.names import FORWARD
from trackside.monitor.phases.timed import TimedMethod
from trackside.monitor.phases.track import Track

COMPILER = "torch._dynamo.eval_frame"
"""The module that holds what `torch.compile` makes of a module; it is imported when it is needed."""


class OutermostForward:
    """Times the outermost modules and costs the inner ones nothing.

    Torch has a hook for the forward of any module, and while there is one, every module takes a slow path. So ours is
    taken away as soon as it has been called, and hung up again when that module returns, which a hook of the module
    itself tells, hung up for this one call. It is away as well while a batch is made, or gradients: transforms are
    modules too, and checkpointing calls them again.

    `torch.compile` warns where there are hooks for all modules: for its own, the hook is away before it looks.

    Threads: the training thread; others are not looked at.
    """

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._torch, self._track, self._borders = torch, marks, borders
        self._hook = _hook_for(self, torch)
        self._everywhere = torch.nn.modules.module.register_module_forward_pre_hook(self._hook)
        self._is_armed = True
        self._ends: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """Handles of the hooks that tell when a module returns."""
        self._here: Any = None
        """The one that is hung up now."""
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
            self._everywhere.hooks_dict_ref()[self._everywhere.id] = self._hook

    def disarm(self) -> None:
        """From now on modules are not looked at."""
        if self._is_armed:
            self._is_armed = False
            self._everywhere.hooks_dict_ref().pop(self._everywhere.id, None)

    def remove(self) -> None:
        """Take everything away."""
        self._is_removed = True
        self.disarm()
        self._take_end_away()
        if self._compiled is not None:
            self._compiled.remove()

    @guarded
    def begin(self, module: Any) -> None:
        """A module is called, and no other is."""
        if not self._borders.is_ours:
            return
        self.disarm()
        if self._here is not None:
            self._track.leave(FORWARD, self._before)
            self._take_end_away()
        self._borders.begin_forward()
        self._before = self._track.enter(FORWARD)
        self._is_evaluation = not (module.training and self._torch.is_grad_enabled())
        try:
            self._hang_end_up(module)
        except RuntimeError:  # a ScriptModule takes no hooks: it is in the rest of the step
            self._track.leave(FORWARD, self._before)
            self.arm()

    def _hang_end_up(self, module: Any) -> None:
        handle: Any = self._ends.get(module)
        table = module.__dict__.get("_forward_hooks")
        if handle is None or table is None or handle.hooks_dict_ref() is not table:
            self._ends[module] = handle = module.register_forward_hook(self._end)
        else:
            table[handle.id] = self._end
        self._here = handle

    def _take_end_away(self) -> None:
        handle, self._here = self._here, None
        hooks = handle.hooks_dict_ref() if handle is not None else None
        if hooks is not None:
            hooks.pop(handle.id, None)

    @guarded
    def _end(self, _module: Any, _args: Any, _output: Any) -> None:
        self._track.leave(FORWARD, self._before)
        self._borders.end_forward(is_evaluation=self._is_evaluation)
        self._take_end_away()
        self.arm()

    @guarded
    def watch_compiled(self) -> None:
        """What `torch.compile` makes of a module can be watched, now that the compiler is there."""
        if self._compiled is not None or self._is_removed:
            return
        compiled = sys.modules[COMPILER].OptimizedModule
        self._compiled = TimedMethod(compiled, "__call__", self._begin_compiled)
        self._compiled.install()

    def _begin_compiled(self, _original: Any, module: Any) -> None:
        if self._is_armed and not self._torch.compiler.is_dynamo_compiling():
            self.begin(module)


def _hook_for(watch: OutermostForward, torch: Any) -> Any:
    """The hook as torch calls it; while a graph is compiled it is nothing at all, and leaves nothing in the graph."""
    is_compiling = torch.compiler.is_dynamo_compiling

    def begin(module: Any, _args: Any) -> None:
        if is_compiling():
            return
        watch.begin(module)

    return begin
