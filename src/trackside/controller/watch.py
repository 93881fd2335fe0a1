"""Watches processes on this machine: the one that started the controller, and those of its sessions."""

import asyncio
import contextlib
import os
import select
from collections.abc import Callable

from trackside.controller.exits import Ended, how_it_ended, open_process
from trackside.wire.messages import Hello
from trackside.wire.processes import began_after_boot, is_running


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
        self._watched: dict[int, tuple[int | None, list[bytes]]] = {}
        """Descriptor and sessions of each process; one may begin any number of them."""
        self._sessions: set[bytes] = set()
        self._restarters: dict[int, float | None] = {}
        """Agents of plain torchrun here, and when they began."""
        self._seen: set[bytes] = set()
        self._ends = select.poll()
        """Descriptors of processes: one question to the kernel for all of them."""

    def greet(self, hello: Hello) -> None:
        """Watch a session from its hello on."""
        pid = hello.process.pid
        if hello.session in self._sessions or hello.host.machine_id != self._machine_id or not is_running(pid):
            return
        self._sessions.add(hello.session)
        agent = hello.process.parent_pid
        if agent is not None and hello.identity is not None and hello.identity.rendezvous is not None:
            self._restarters.setdefault(agent, began_after_boot(agent))
        self._seen.add(hello.session)
        if pid not in self._watched:
            descriptor = open_process(pid)
            if descriptor is not None:
                self._ends.register(descriptor, select.POLLIN)
            self._watched[pid] = (descriptor, [])
        self._watched[pid][1].append(hello.session)

    def has_seen(self, session: bytes) -> bool:
        """Whether its process is, or was, one of this machine."""
        return session in self._seen

    def take_gone(self) -> list[tuple[bytes, Ended]]:
        """Sessions whose process has ended since the last call, and how."""
        out: list[tuple[bytes, Ended]] = []
        ended = {descriptor for descriptor, _ in self._ends.poll(0)}
        for pid in [pid for pid, (descriptor, _) in self._watched.items() if _is_over(pid, descriptor, ended)]:
            sessions = self._watched[pid][1]
            how = self._forget(pid)
            out += [(session, how) for session in sessions]
        return out

    def has_restarter(self) -> bool:
        """Whether one of the agents that started sessions here, and may start them again, still runs."""
        for pid, began in list(self._restarters.items()):
            if is_running(pid) and began_after_boot(pid) == began:
                return True
            del self._restarters[pid]
        return False

    def close(self) -> None:
        """Watch nobody any more. Idempotent."""
        for pid in list(self._watched):
            self._forget(pid)

    def _forget(self, pid: int) -> Ended:
        descriptor, sessions = self._watched.pop(pid)
        self._sessions.difference_update(sessions)
        ended = how_it_ended(pid, descriptor)
        if descriptor is not None:
            self._ends.unregister(descriptor)
            os.close(descriptor)
        return ended


def _is_over(pid: int, descriptor: int | None, ended: set[int]) -> bool:
    return not is_running(pid) if descriptor is None else descriptor in ended
