"""`trackside.init`, `log`, `finish`: the spelling that users of other trackers know."""

import os
from collections.abc import Mapping
from typing import Any

from trackside.monitor.api import Monitor
from trackside.monitor.console import say
from trackside.monitor.guard import guarded
from trackside.monitor.roles import find_identity, is_disabled, is_helper_process


class _Spelling:
    """The monitor that `init` made: these functions have no object to hold it."""

    def __init__(self) -> None:
        self.monitor: Monitor | None = None
        self.has_begun = False
        """Whether `init` was called, or it was said that it was not."""

    @guarded
    def miss(self) -> None:
        """Say once in a job on each host that what is logged goes nowhere; what is inert is silent."""
        if self.has_begun:
            return
        self.has_begun = True
        if not is_disabled(os.environ) and not is_helper_process() and find_identity(os.environ).local_rank == 0:
            say("  trackside: log() before init(): nothing is kept; call trackside.init() first, or make a Monitor")


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
    _spelling.monitor, _spelling.has_begun = monitor, True
    return monitor


def log(metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Log values. Without `init` nothing is kept, and a line says so once; after `finish` nothing happens."""
    if _spelling.monitor is not None:
        _spelling.monitor.log(metrics, step=step)
    else:
        _spelling.miss()


def finish() -> None:
    """End what `init` began. Idempotent. Blocks: as `Monitor.finish`."""
    monitor, _spelling.monitor = _spelling.monitor, None
    if monitor is not None:
        monitor.finish()
