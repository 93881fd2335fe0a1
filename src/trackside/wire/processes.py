"""Processes of this machine, by number: whether one is there, and since when."""

import contextlib
import os
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - hot
        return file.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    return True


def began_at(pid: int) -> float | None:
    """UTC epoch seconds at which a process began, to a second or so; None where that cannot be told.

    Source: field 22 of `/proc/<pid>/stat`, ticks since boot, and `/proc/uptime`.
    """
    after_boot_s = began_after_boot(pid)
    try:
        uptime_s = float(Path("/proc/uptime").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return None if after_boot_s is None else time.time() - uptime_s + after_boot_s


def began_after_boot(pid: int) -> float | None:
    """Seconds from the machine's start to the process's; None where that cannot be told.

    Source: field 22 of `/proc/<pid>/stat`.
    """
    stat = _stat(pid)
    return int(stat[19]) / os.sysconf("SC_CLK_TCK") if stat is not None else None


def ancestors_of(pid: int, most: int = 8) -> list[int]:
    """The process's parent, that one's parent and so on, without the first of all. Source: field 4 of `/proc/<pid>/stat`."""
    found: list[int] = []
    while len(found) < most and (stat := _stat(pid)) is not None and (pid := int(stat[1])) > 1:
        found.append(pid)
    return found


def _stat(pid: int) -> list[bytes] | None:
    """Fields of `/proc/<pid>/stat` from the third on."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        return fields if len(fields) > 19 else None
    return None
