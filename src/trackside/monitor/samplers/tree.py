"""The process tree of a rank: its CPU time and resident memory, DataLoader workers included."""

import os
from dataclasses import dataclass
from pathlib import Path

from trackside.monitor.samplers.files import read_text

_TICKS_HZ = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    own_ticks: int
    """User and system time of the process itself."""
    reaped_ticks: int
    """The same of its children that have ended and were waited for."""

    @property
    def all_ticks(self) -> int:
        return self.own_ticks + self.reaped_ticks


@dataclass(frozen=True, slots=True)
class TreeReading:
    """The tree since the last reading."""

    cpu_seconds: float
    """CPU time used in the interval; what processes used that came and went in between is in it once waited for."""
    memory_bytes: int | None
    """Resident pages, summed; pages that forked children share count in each of them."""
    processes: int


class ProcessTree:
    """A process and all that descend from it.

    Source: `/proc/<pid>/stat`, `/proc/<pid>/statm`, `/proc/<pid>/task/*/children`; /proc as a whole is never scanned.
    """

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid = pid
        self._proc = proc
        self._last = self._read()

    def read(self) -> TreeReading | None:
        """Return what happened since the last call (since construction, at first); None once the root has gone."""
        now = self._read()
        if self._pid not in now:
            return None
        ticks = _ticks_between(self._last, now)
        self._last = now
        resident = [pages for pid in now if (pages := self._resident_pages(pid)) is not None]
        return TreeReading(
            cpu_seconds=ticks / _TICKS_HZ,
            memory_bytes=sum(resident) * _PAGE_BYTES if resident else None,
            processes=len(now),
        )

    def _read(self) -> dict[int, _Process]:
        found: dict[int, _Process] = {}
        waiting = [self._pid]
        while waiting:
            pid = waiting.pop()
            process = self._process(pid)
            if pid in found or process is None:
                continue
            found[pid] = process
            waiting.extend(self._children(pid))
        return found

    def _process(self, pid: int) -> _Process | None:
        text = read_text(self._proc / str(pid) / "stat")
        if text is None:
            return None
        fields = text[text.rfind(")") + 2 :].split()  # the command's name may hold spaces and brackets
        if len(fields) < 15:
            return None
        return _Process(int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14]))

    def _children(self, pid: int) -> list[int]:
        try:
            tasks = list((self._proc / str(pid) / "task").iterdir())
        except OSError:
            return []
        texts = [read_text(task / "children") for task in tasks]
        if tasks and all(text is None for text in texts):
            return _children_without_kernel_list(pid)
        return [int(word) for text in texts for word in (text or "").split()]

    def _resident_pages(self, pid: int) -> int | None:
        fields = (read_text(self._proc / str(pid) / "statm") or "").split()
        return int(fields[1]) if len(fields) > 1 else None


def _children_without_kernel_list(pid: int) -> list[int]:
    """A kernel built without CONFIG_PROC_CHILDREN (gVisor too): psutil then reads the parent of every process."""
    import psutil  # type: ignore[import-untyped, unused-ignore]

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def _ticks_between(last: dict[int, _Process], now: dict[int, _Process]) -> int:
    """Return the ticks used between two readings, never negative.

    A child that ended moves into its parent's `reaped_ticks` whole. What the last reading had already counted of it is
    taken off there, so nothing counts twice, and a child nobody waited for takes nothing away.
    """
    counted = dict.fromkeys(now, 0)
    for pid, process in last.items():
        if pid in now:
            continue
        heir = process.parent
        while heir in last and heir not in now:
            heir = last[heir].parent
        if heir in counted:
            counted[heir] += process.all_ticks
    total = 0
    for pid, process in now.items():
        before = last.get(pid)
        if before is None or before.own_ticks > process.own_ticks:  # new, or its number was given out again
            total += process.all_ticks
            continue
        total += process.own_ticks - before.own_ticks
        total += max(0, process.reaped_ticks - before.reaped_ticks - counted[pid])
    return total
