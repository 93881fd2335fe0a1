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
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[19])
        uptime_s = float(Path("/proc/uptime").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return time.time() - uptime_s + ticks / os.sysconf("SC_CLK_TCK")
