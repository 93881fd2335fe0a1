"""`trackside.init`, `log`, `finish`: the spelling that users of other trackers know."""

from collections.abc import Mapping
from typing import Any

from trackside.monitor.api import Monitor

_monitors: list[Monitor] = []
"""The monitor that `init` made, if any: these functions have no object to hold it."""


def init(project: str | None = None, name: str | None = None, config: Mapping[str, Any] | None = None) -> Monitor:
    """Begin, with a live page; return the monitor.

    Raises:
        UsageError, ArgumentTypeError: as `Monitor`.
    """
    finish()
    monitor = Monitor(name=name or project, config=config)
    monitor.serve()
    _monitors.append(monitor)
    return monitor


def log(metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Log values. Without `init` nothing happens."""
    if _monitors:
        _monitors[-1].log(metrics, step=step)


def finish() -> None:
    """End what `init` began. Idempotent."""
    while _monitors:
        _monitors.pop().finish()
