"""Nothing of ours raises into the user's program: every public method of a rank goes through here."""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from trackside.errors import TracksideError
from trackside.monitor.console import clean, say

logger = logging.getLogger("trackside.monitor")

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_MOST_KINDS = 1_000


class FaultLog:
    """Counts faults of ours by kind and logs each kind once, at debug level. Threads: any."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def note(self, where: str, error: BaseException) -> None:
        """Count a fault. Never raises."""
        kind = f"{where}: {type(error).__name__}"
        known = self.counts.get(kind, 0)
        if known or len(self.counts) < _MOST_KINDS:
            self.counts[kind] = known + 1
        if not known:
            logger.debug("trackside: %s", kind, exc_info=error)


FAULTS = FaultLog()
"""Of this process: a monitor that is inert has nobody else to tell."""


def guarded(method: F) -> F:
    """Run a method; a fault of ours is noted and answered with None. What the user's own code raises is not for it."""

    @functools.wraps(method)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note(method.__name__, error)
            return None

    return safe  # type: ignore[return-value]


def guarded_hook(method: Callable[[Any], object], is_off: Callable[[], bool]) -> Callable[..., None]:
    """The same for a hook that gets its subject first, in one frame, since it is called in every step.

    While `is_off` it is nothing at all: where it says that a graph is compiled, nothing of ours gets into the graph.
    """
    name = method.__name__

    def hook(subject: Any, *_: Any) -> None:
        if is_off():
            return
        try:
            method(subject)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note(name, error)

    return hook


def guarded_end(call: Any) -> None:
    """`__del__` of a call that says when it is over: `call.end(call.about)`, guarded, in one frame."""
    try:
        call.end(call.about)
    except Exception as error:  # noqa: BLE001 - the rank's guard
        FAULTS.note("end of a call", error)


def spared(call: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
    """What a call at the beginning answers; a wrong argument raises, a fault of ours is said in one line and makes None."""
    try:
        return call(*args, **kwargs)
    except TracksideError:
        raise
    except Exception as error:  # noqa: BLE001 - the rank's guard
        FAULTS.note(call.__name__, error)
        say(f"trackside: this process is not watched: {clean(f'{type(error).__name__}: {error}')}")
        return None


def quietly(call: Callable[..., Any], *args: Any, is_ours: bool = True) -> bool:
    """Run something that may raise anything, such as a user's `__repr__`; return whether it did not.

    `is_ours` tells a fault of ours, which is noted, from a wrong argument, which its user is told about.
    """
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - the rank's guard
        if is_ours:
            FAULTS.note(getattr(call, "__name__", "call"), error)
        return False
    return True


def ask(call: Callable[..., Any], *args: Any, default: Any = None) -> Any:
    """What the user's own code answers, such as an `extra_repr`; `default` where it raises, which is no fault of ours."""
    try:
        return call(*args)
    except Exception:  # noqa: BLE001 - the rank's guard
        return default
