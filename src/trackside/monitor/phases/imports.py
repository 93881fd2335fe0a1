"""Waiting for a module that the user's program may import later."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trackside.monitor.guard import guarded


class ImportWatch:
    """Calls once a module has been imported; it is found and loaded as it would be without us.

    Args:
        name: Of the module.
        then: Called in the thread that imported it, right after.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, guarded(then)
        self._is_looking = False

    def install(self) -> None:
        """Begin to wait."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Wait no more. Idempotent."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have, with a loader that tells us."""
        if fullname != self._name or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader, self._came)  # type: ignore[assignment]
        return spec

    def _ask_others(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None:
                return spec
        return None

    def _came(self) -> None:
        self.remove()
        self._then()


class _TellingLoader:
    """A loader that has told the module's own name before it runs it, and us after.

    By its methods alone: the classes of `importlib.abc` bring resources and random numbers with them, which no rank needs.
    """

    def __init__(self, loader: Any, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does; the module never sees us."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
