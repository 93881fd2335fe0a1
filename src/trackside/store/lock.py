"""One controller at a time for a run folder, also where the folder is shared between hosts."""

import contextlib
import fcntl
import json
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any

from trackside.errors import RunBusyError
from trackside.store.folder import RunFolder
from trackside.wire.machine import machine_id
from trackside.wire.processes import is_running

FILE = ".lock"
FRESH_S = 15.0
"""A controller on another host whose `run.json` is younger may be alive: a file system may keep its locks to each host."""
WAIT_S = 12.0
_PAUSE_S = 0.1


class FolderLock:
    """Holds a run folder until `release`, or until its process ends in whatever way.

    The lock is the kernel's, on a file that is there while a controller writes; what is written in it says who holds it. Where the file system
    has no locks that other hosts see, that word and the age of `run.json` decide.

    Args:
        folder: Of the run.
        wait_s: How long a holder that is just ending is waited for.

    Blocks: up to `wait_s`, and for the disk.

    Raises:
        RunBusyError: somebody else holds it; says who.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: RunFolder, wait_s: float = WAIT_S) -> None:
        self._folder = folder
        self._path = folder.path / FILE
        deadline = time.monotonic() + wait_s
        while (descriptor := self._try()) is None:
            if time.monotonic() >= deadline:
                raise RunBusyError(f"the controller of {folder.path} is still there: {self._holder_words()}")
            time.sleep(_PAUSE_S)
        self._close = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        """Let it go, and leave nothing of it. Idempotent. Blocks: for the disk."""
        if self._close.alive:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._close()

    def _try(self) -> int | None:
        """The locked file; None where another one has it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if self._is_ours(descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, _own_words(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _is_ours(self, descriptor: int) -> bool:
        holder = _holder(self._path)
        is_elsewhere = holder.get("machine") not in (None, machine_id())
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # no locks here
            if holder and not is_elsewhere and holder.get("pid") != os.getpid() and is_running(int(holder["pid"])):
                return False
        if is_elsewhere and self._is_fresh(descriptor):
            return False
        return self._is_current(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        """Whether the file is still the one that others find: its last holder may have removed it."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        return False

    def _is_fresh(self, descriptor: int) -> bool:
        """Whether `run.json` was written just now, by the clock of the file system."""
        with contextlib.suppress(OSError):
            os.utime(descriptor)
            return os.fstat(descriptor).st_mtime - self._folder.document.stat().st_mtime < FRESH_S
        return False

    def _holder_words(self) -> str:
        holder = _holder(self._path)
        return f"pid {holder['pid']} on {holder.get('host')}" if holder else "nobody says which process it is"


def holder_has_gone(folder: RunFolder) -> bool:
    """Whether the controller that last held a folder was on this machine and is there no more; False where that cannot be told.

    Only read, never locked: who looks is in nobody's way.
    """
    holder = _holder(folder.path / FILE)
    if holder.get("machine") != machine_id() or is_running(holder["pid"]):
        return False
    with contextlib.suppress(OSError):  # a process that is not seen from here, in another container, still writes
        return time.time() - folder.document.stat().st_mtime >= FRESH_S
    return False


def _holder(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(path.read_bytes())
        if isinstance(told, dict) and isinstance(told.get("pid"), int):
            return told
    return {}


def _own_words() -> bytes:
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "machine": machine_id()}).encode()
