"""Timing a method of a class that is not ours, without a frame of ours in anybody's traceback."""

import functools
from collections.abc import Callable
from typing import Any

from trackside.monitor.guard import guarded_end


class TimedCall(functools.partial[Any]):
    """A call that says when it is over.

    It is thrown away as soon as it has returned or raised, and says so then. It runs in C, so what the method raises
    shows the same frames as without us; a wrapper written in Python would be one of them.
    """

    __slots__ = ("about", "end")
    end: Callable[[Any], object]
    about: Any
    """What `end` is called with."""

    __del__ = guarded_end


class TimedMethod:
    """Takes the place of a method in its class.

    Args:
        owner: The class.
        name: Of the method.
        begin: Called with the object whose method is about to be called. Returns what makes the call, else None: then
            nothing of ours happens. Must not raise.
        only_exact: Whether objects of derived classes are left alone, as pybind11 needs it, which otherwise takes us for
            an override in Python.
        defined_in: The class that has it, if not `owner` itself.

    Looked up in the class, the method is still the original: whoever compares functions, or keeps tables of them, as
    `__torch_function__` does, sees no difference.
    """

    __slots__ = ("_begin", "_is_inherited", "_name", "_only_exact", "_original", "_owner", "_raw")

    def __init__(
        self,
        owner: type,
        name: str,
        begin: Callable[[Callable[..., Any], Any], Callable[..., Any] | None],
        *,
        only_exact: bool = False,
        defined_in: type | None = None,
    ) -> None:
        self._owner, self._name, self._begin, self._only_exact = owner, name, begin, only_exact
        self._is_inherited = defined_in is not None and defined_in is not owner
        self._raw = (defined_in or owner).__dict__[name]
        self._original = getattr(owner, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is not None and (type(instance) is self._owner or not self._only_exact):
            call = self._begin(self._original, instance)
            if call is not None:
                return call
        return self._raw.__get__(instance, owner)

    def install(self) -> None:
        """Take the place."""
        setattr(self._owner, self._name, self)

    def remove(self) -> None:
        """Put the original back, unless another has taken the place meanwhile."""
        if self._owner.__dict__.get(self._name) is not self:
            return
        if self._is_inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._raw)
