"""Who this process is when it is told late: a script may begin its process group after its first `Monitor`."""

import os
import sys
import time
from collections.abc import Mapping

from trackside.errors import UsageError
from trackside.monitor.roles import LOCAL_RANK, SINGLE, find_identity, process_group_identity
from trackside.wire.messages import Identity

HOLD_S = 10.0
"""How long a process that others were started beside is not taken for a single one."""
STABLE_S = 0.2
"""A script sets its variables one after the other; they count when nothing has changed for so long."""


class LateIdentity:
    """The identity, looked up again until somebody says it.

    Args:
        environ: Ours when the first monitor was made.

    Raises:
        UsageError: variables that contradict each other.

    Threads: made in any; `look` on one.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.identity = find_identity(environ)
        self.problem: str | None = None
        """Why the variables that were set later say nothing."""
        self._is_known = self.identity is not SINGLE
        self._held_until = 0.0 if self._is_known or not _has_siblings(environ) else time.monotonic() + HOLD_S
        self._candidate: tuple[Identity, float] | None = None
        self._stable_s = STABLE_S

    @property
    def is_held(self) -> bool:
        """Whether it is too early to act as a single process."""
        return not self._is_known and time.monotonic() < self._held_until

    def release(self) -> None:
        """Wait no longer."""
        self._held_until = self._stable_s = 0.0

    def look(self) -> bool:
        """Look again; return whether the identity has just become known."""
        if self._is_known:
            return False
        found = process_group_identity() or self._by_variables()
        if found is None:
            return False
        self.identity, self._is_known = found, True
        return True

    def _by_variables(self) -> Identity | None:
        try:
            found = find_identity(os.environ)
        except UsageError as error:
            self._candidate, self.problem = None, str(error)
            return None
        self.problem = None
        if found is SINGLE:
            self._candidate = None
            return None
        now = time.monotonic()
        if self._candidate is None or self._candidate[0] != found:
            self._candidate = (found, now)
        return found if now - self._candidate[1] >= self._stable_s else None


def _has_siblings(environ: Mapping[str, str]) -> bool:
    """Whether this process looks like one of several: a child of `multiprocessing`, or one that has a local rank."""
    process = sys.modules.get("multiprocessing.process")
    is_child = process is not None and process.parent_process() is not None
    return is_child or environ.get(LOCAL_RANK, "").strip() not in ("", "-1")
