"""Trackside: the live dashboard that runs beside a PyTorch training job."""

from trackside._version import __version__

TYPE_CHECKING = False  # what type checkers take for true; `typing` itself would be half of what this import costs
if TYPE_CHECKING:
    from trackside.errors import TracksideError
    from trackside.monitor.api import Monitor
    from trackside.monitor.spelling import finish, init, log

__all__ = ["Monitor", "TracksideError", "__version__", "finish", "init", "log"]

_HOMES = {
    "Monitor": "trackside.monitor.api",
    "TracksideError": "trackside.errors",
    "finish": "trackside.monitor.spelling",
    "init": "trackside.monitor.spelling",
    "log": "trackside.monitor.spelling",
}


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used, so that `import trackside` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trackside' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
