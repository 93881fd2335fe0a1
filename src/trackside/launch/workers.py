"""The ranks' processes: who runs, who has ended and how, without taking their exit from whoever waits for them."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.wire.messages import Identity

_POLL_S = 0.1
_RECORD_S = 2.0


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended; exactly one of the two is set, or none when nobody could tell."""

    exit_code: int | None = None
    signal: str | None = None

    @property
    def shell_code(self) -> int:
        """As a shell has it: 128 + N for signal N; 1 when it is not known."""
        if self.signal is not None:
            return 128 + getattr(signal, self.signal, 0)
        return 1 if self.exit_code is None else self.exit_code


@dataclass(frozen=True, slots=True)
class Worker:
    """One rank's process."""

    identity: Identity
    pid: int
    returncode: Callable[[], int | None] = field(compare=False)
    """What the one who waits for the process has learnt already; negative for a signal."""
    environ: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What was set for it beyond the launcher's own environment."""


class WorkerWatch:
    """Tells at once when a rank's process ends.

    The elastic agent waits for its children itself, every 0.1 s or slower. Here a pidfd wakes us, and `waitid` with
    `WNOWAIT` looks at the exit without taking it; if the agent was faster, its own record is read.

    Threads: one.
    """

    def __init__(self) -> None:
        self._workers: dict[int, Worker] = {}
        self._pidfds: dict[int, int] = {}
        self._vanished: dict[int, float] = {}

    def add(self, worker: Worker) -> None:
        """Watch one more process."""
        with contextlib.suppress(OSError, AttributeError):  # gone already, or forbidden in this container: polled then
            self._pidfds[worker.pid] = os.pidfd_open(worker.pid)
        self._workers[worker.pid] = worker

    def running(self) -> list[Worker]:
        """Return who has not been seen to end."""
        return list(self._workers.values())

    def wait(self, timeout_s: float) -> list[tuple[Worker, Exit]]:
        """Return who has ended. Blocks: up to `timeout_s`, less when somebody ends."""
        deadline = time.monotonic() + timeout_s
        while not (ended := self._ended()):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            all_wake_us = set(self._workers) == set(self._pidfds)
            self._sleep(left_s if all_wake_us else min(left_s, _POLL_S))
        return ended

    def close(self) -> None:
        """Forget all processes. Idempotent."""
        for descriptor in self._pidfds.values():
            os.close(descriptor)
        self._pidfds.clear()
        self._workers.clear()

    def _sleep(self, seconds: float) -> None:
        poller = select.poll()
        for descriptor in self._pidfds.values():
            poller.register(descriptor, select.POLLIN)
        if poller.poll(seconds * 1000):
            time.sleep(0.001)  # the exit may be on its way to the agent's record

    def _ended(self) -> list[tuple[Worker, Exit]]:
        ended: list[tuple[Worker, Exit]] = []
        for pid, worker in list(self._workers.items()):
            found = exit_of(worker) or self._given_up(worker)
            if found is None:
                continue
            self._vanished.pop(pid, None)
            del self._workers[pid]
            descriptor = self._pidfds.pop(pid, None)
            if descriptor is not None:
                os.close(descriptor)
            ended.append((worker, found))
        return sorted(ended, key=_is_consequence)

    def _given_up(self, worker: Worker) -> Exit | None:
        """An unknown exit, once a process has been gone for a while and nobody has recorded how."""
        if _exists(worker.pid):
            return None
        since = self._vanished.setdefault(worker.pid, time.monotonic())
        return Exit() if time.monotonic() - since > _RECORD_S else None


def _is_consequence(ended: tuple[Worker, Exit]) -> bool:
    """Seen in one look, a rank that SIGTERM ended was ended for another's failure: that one comes first."""
    return ended[1].signal == "SIGTERM"


def exit_of(worker: Worker) -> Exit | None:
    """Return how the process ended, None while it runs or while nobody has recorded it."""
    known = worker.returncode()
    if known is not None:
        return _exit(known)
    try:
        state = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # somebody has waited for it; the record follows in a moment
        return None
    if state is None:
        return None
    return _exit(state.si_status if state.si_code == os.CLD_EXITED else -state.si_status)


def _exit(returncode: int) -> Exit:
    if returncode >= 0:
        return Exit(exit_code=returncode)
    try:
        return Exit(signal=signal.Signals(-returncode).name)
    except ValueError:  # a real-time signal
        return Exit(signal=f"SIG{-returncode}")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
