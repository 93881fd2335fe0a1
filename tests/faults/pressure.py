"""A machine that is short of memory, processor or descriptors, for some processes of it."""

from __future__ import annotations

import contextlib
import os
import resource
import time
import uuid
from pathlib import Path
from typing import Self

GROUPS = Path("/sys/fs/cgroup")


class _Group:
    """A control group of version 1 for one test."""

    controller = ""

    def __init__(self) -> None:
        self._folder = GROUPS / self.controller / f"trackside-{uuid.uuid4().hex[:8]}"
        self._folder.mkdir()

    @classmethod
    def is_possible(cls) -> bool:
        """Whether such a group can be made here."""
        return os.geteuid() == 0 and (GROUPS / cls.controller / "tasks").exists()

    @property
    def tasks(self) -> Path:
        """Where a process writes its number to be in it."""
        return self._folder / "cgroup.procs"

    def take(self, pid: int) -> None:
        self.tasks.write_text(str(pid))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        deadline = time.monotonic() + 10
        for pid in self.tasks.read_text().split():
            with contextlib.suppress(OSError):
                (GROUPS / self.controller / "cgroup.procs").write_text(pid)
        while self._folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._folder.rmdir()
            time.sleep(0.01)


class MemoryLimit(_Group):
    """Who takes more is killed by the kernel."""

    controller = "memory"

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        (self._folder / "memory.limit_in_bytes").write_text(str(size_bytes))

    def kills(self) -> int:
        """How many the kernel has killed."""
        found = dict(line.split() for line in (self._folder / "memory.oom_control").read_text().splitlines())
        return int(found.get("oom_kill", 0))


class CpuLimit(_Group):
    """A share of one core, and no more."""

    controller = "cpu"

    def __init__(self, share: float) -> None:
        super().__init__()
        (self._folder / "cpu.cfs_period_us").write_text("100000")
        (self._folder / "cpu.cfs_quota_us").write_text(str(int(100_000 * share)))


class NoDescriptors:
    """From now on a running process cannot open anything."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        numbers = sorted(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
        lowest_free = next(n for n in range(len(numbers) + 1) if n not in numbers)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, self._before[1]))

    def release(self) -> None:
        """It can again."""
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._before)
