"""Watches processes on this machine: the one that started the controller, and those of its sessions."""

import asyncio
import contextlib
import os
from collections.abc import Callable

from trackside.controller.exits import Ended, how_it_ended, open_process
from trackside.wire.messages import Hello
from trackside.wire.processes import is_running


class ParentWatch:
    """Says once when a process has gone.

    Args:
        pid: of the process.
        gone: called in the loop.
    """

    def __init__(self, pid: int, gone: Callable[[], None]) -> None:
        self._pid = pid
        self._gone = gone
        self._fd: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, with a pidfd where the kernel has them; elsewhere `poll` must be called."""
        self._loop = loop
        with contextlib.suppress(OSError):
            self._fd = os.pidfd_open(self._pid)
            loop.add_reader(self._fd, self._tell)
        self.poll()

    def poll(self) -> None:
        """Look now."""
        if not is_running(self._pid):
            self._tell()

    def close(self) -> None:
        """Idempotent."""
        if self._fd is not None and self._loop is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _tell(self) -> None:
        self.close()
        if not self._told:
            self._told = True
            self._gone()


class SessionWatch:
    """Finds sessions whose process has ended, as long as they run on this machine and in its process namespace.

    Args:
        machine_id: of this machine.
    """

    def __init__(self, machine_id: str) -> None:
        self._machine_id = machine_id
        self._watched: dict[bytes, tuple[int, int | None]] = {}
        """Process and descriptor of each session."""

    def greet(self, hello: Hello) -> None:
        """Watch a session from its hello on."""
        pid = hello.process.pid
        if hello.session in self._watched or hello.host.machine_id != self._machine_id or not is_running(pid):
            return
        self._watched[hello.session] = (pid, open_process(pid))

    def take_gone(self) -> list[tuple[bytes, Ended]]:
        """Sessions whose process has ended since the last call, and how."""
        gone = [session for session, (pid, _) in self._watched.items() if not is_running(pid)]
        return [(session, self._forget(session)) for session in gone]

    def close(self) -> None:
        """Watch nobody any more. Idempotent."""
        for session in list(self._watched):
            self._forget(session)

    def _forget(self, session: bytes) -> Ended:
        pid, descriptor = self._watched.pop(session)
        ended = how_it_ended(pid, descriptor)
        if descriptor is not None:
            os.close(descriptor)
        return ended
