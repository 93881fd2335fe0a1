"""What hangs on a module: callables that a copy, a pickle and a compiler of the model can live with.

A deep copy of the model, or one that is loaded from a file, has in their place a function of the standard library that
does nothing, so that a saved model asks for nothing of ours. A compiler that inlines them finds a function that returns.
"""

import contextlib
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.compiler import is_compiling
from torch.utils.hooks import RemovableHandle


class Hook:
    """Base of both."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call

    def __deepcopy__(self, memo: object) -> Callable[..., None]:
        return contextlib.nullcontext().__exit__

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr, (contextlib.nullcontext(), "__exit__"))


class Before(Hook):
    """Calls with (module, args, kwargs) before a forward."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        self._call(module, args, kwargs)


class After(Hook):
    """Calls with (module, args, kwargs, output) after a forward."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if is_compiling():
            return
        self._call(module, args, kwargs, output)


class Hooked:
    """Hooks on many modules that come off together."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def before(self, module: nn.Module, hook: Before) -> None:
        """Hang one on a module."""
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def after(self, module: nn.Module, hook: After, *, always: bool = False) -> None:
        """Hang one on a module; `always`: also when its forward raises."""
        self._handles.append(module.register_forward_hook(hook, with_kwargs=True, always_call=always))

    def remove(self) -> None:
        """Take all of them off. Idempotent."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
