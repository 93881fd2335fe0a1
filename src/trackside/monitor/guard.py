"""Nothing of ours raises into the user's program: every public method of a rank goes through here."""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

logger = logging.getLogger("trackside.monitor")

F = TypeVar("F", bound=Callable[..., Any])
_said: set[str] = set()
"""Kinds of faults that were logged already; a process-wide memory so that each is said once."""


def guarded(method: F) -> F:
    """Run a method; an error of ours is counted, logged at debug level once a kind, and answered with None."""

    @functools.wraps(method)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            note_fault(method.__name__, error)
            return None

    return safe  # type: ignore[return-value]


def note_fault(where: str, error: BaseException) -> None:
    """Log a fault of ours; never raises."""
    kind = f"{where}: {type(error).__name__}"
    if kind not in _said and len(_said) < 1000:
        _said.add(kind)
        logger.debug("trackside: %s", kind, exc_info=error)
