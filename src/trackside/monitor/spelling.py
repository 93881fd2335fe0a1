"""`trackside.init`, `log`, `finish`: the spelling that users of other trackers know."""

from collections.abc import Mapping
from typing import Any

from trackside.monitor.api import Monitor


class _Spelling:
    """The monitor that `init` made: these functions have no object to hold it."""

    def __init__(self) -> None:
        self.monitor: Monitor | None = None


_spelling = _Spelling()


def init(project: str | None = None, name: str | None = None, config: Mapping[str, Any] | None = None) -> Monitor:
    """Begin, with a live page; return the monitor. What an earlier `init` began is finished first.

    Args:
        project: What this run belongs to; the run's name too, unless `name` says another.
        name: Of the run.
        config: As for `Monitor`.

    Raises:
        UsageError, ArgumentTypeError: As `Monitor`.
    """
    finish()
    monitor = Monitor(name=name or project, config=config)
    if project:
        monitor.set_project(project)
    monitor.serve()
    _spelling.monitor = monitor
    return monitor


def log(metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Log values. Without `init` nothing happens."""
    if _spelling.monitor is not None:
        _spelling.monitor.log(metrics, step=step)


def finish() -> None:
    """End what `init` began. Idempotent. Blocks: as `Monitor.finish`."""
    monitor, _spelling.monitor = _spelling.monitor, None
    if monitor is not None:
        monitor.finish()
