"""A session without a `Monitor`, for a script that has none of its own."""

from trackside.monitor.guard import guarded
from trackside.monitor.runtime import join_runtime


class _Nobody:
    """Begins a session and leaves it to those that come."""

    def end(self) -> None:
        """The interpreter is ending."""

    def become_inert(self) -> None:
        """This is a forked child."""

    @property
    def wants_report(self) -> bool:
        """Nobody asked for one."""
        return False


@guarded
def begin() -> None:
    """Begin the process's session: its steps and their phases are reported.

    A `Monitor` that the script makes later joins it, and the last of them ends it as if there had been no other.
    """
    nobody = _Nobody()
    runtime = join_runtime(nobody, name=None, directory=None, resources=True)
    if runtime is not None:
        runtime.users.discard(nobody)
