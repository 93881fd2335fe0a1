"""Limits of the container a process runs in: CPU quota and memory, cgroup v2 and v1, nested.

The tightest limit on the way from the process's own group up to the root holds, so every level is read. In a container
with its own cgroup namespace the mount's root is the container's group; without one, `/proc/self/cgroup` names a path
that may not exist below the mount, and the mount itself is what is left to read.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from trackside.monitor.samplers.files import read_fields, read_int, read_text

_UNLIMITED_BYTES = 1 << 60
"""v1 writes "no limit" as the largest page-aligned 63-bit number."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Memory of the group whose limit is the tightest."""

    limit_bytes: int
    used_bytes: int | None
    """Without page cache that can be dropped at once (`inactive_file`), as the kernel's own OOM accounting sees it."""
    source: str
    """`cgroup v1` or `cgroup v2`."""


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """CPU time the tightest group may use."""

    cpus: float
    usage_path: Path
    """File the group's used CPU time is read from."""

    @property
    def source(self) -> str:
        """`cgroup v1` or `cgroup v2`."""
        return "cgroup v2" if self.usage_path.name == "cpu.stat" else "cgroup v1"


class Cgroup:
    """The groups of this process.

    Args:
        root: Where the file system begins; another one in tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        mounts = read_text(root / "proc/self/mountinfo") or ""
        groups = _groups(read_text(root / "proc/self/cgroup") or "")
        self._v2: list[Path] = []
        self._v1_memory: list[Path] = []
        self._v1_cpu: list[Path] = []
        self._v1_cpuacct: list[Path] = []
        for mount_root, point, kind, options in _mounts(mounts):
            directory = root / point.lstrip("/")
            if kind == "cgroup2":
                self._v2 = _levels(directory, mount_root, groups.get("", "/"))
            for controller, levels in (
                ("memory", self._v1_memory),
                ("cpu", self._v1_cpu),
                ("cpuacct", self._v1_cpuacct),
            ):
                if kind == "cgroup" and controller in options:
                    levels[:] = _levels(directory, mount_root, groups.get(controller, "/"))

    def memory(self) -> MemoryLimit | None:
        """Return the tightest memory limit, None when there is none."""
        limits = [
            *(_memory_v2(level) for level in self._v2),
            *(_memory_v1(level) for level in self._v1_memory),
        ]
        return min((limit for limit in limits if limit), key=lambda limit: limit.limit_bytes, default=None)

    def cpu(self) -> CpuQuota | None:
        """Return the tightest CPU quota, None when there is none."""
        quotas = [_cpu_v2(level) for level in self._v2]
        quotas += [_cpu_v1(level, self._accounting(level)) for level in self._v1_cpu]
        return min((quota for quota in quotas if quota), key=lambda quota: quota.cpus, default=None)

    def _accounting(self, level: Path) -> Path:
        """The `cpuacct` directory of the same group; on most systems it is the same directory."""
        if (level / "cpuacct.usage").exists():
            return level
        depth = self._v1_cpu.index(level)
        return self._v1_cpuacct[depth] if depth < len(self._v1_cpuacct) else level


def used_cpu_seconds(quota: CpuQuota) -> float | None:
    """Return the CPU time the quota's group has used so far, seconds. Source: `cpu.stat` or `cpuacct.usage`."""
    if quota.source == "cgroup v2":
        usage_us = read_fields(quota.usage_path).get("usage_usec")
        return None if usage_us is None else usage_us / 1e6
    usage_ns = read_int(quota.usage_path)
    return None if usage_ns is None else usage_ns / 1e9


def usable_cpus(quota: CpuQuota | None) -> float | None:
    """Return how many CPUs this process may use: affinity (cpuset) or quota, whichever is tighter."""
    try:
        allowed: float | None = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        allowed = float(os.cpu_count() or 0) or None
    if quota is None or allowed is None:
        return allowed if quota is None else quota.cpus
    return min(allowed, quota.cpus)


def _groups(text: str) -> dict[str, str]:
    """Read `/proc/self/cgroup`: controller name -> path; v2 under the empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                groups[controller] = parts[2]
    return groups


def _mounts(text: str) -> list[tuple[str, str, str, set[str]]]:
    """Read `/proc/self/mountinfo`: (root within the hierarchy, mount point, kind, super options) of each cgroup mount."""
    found: list[tuple[str, str, str, set[str]]] = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if separator and len(fields) >= 5 and len(tail) >= 3 and tail[0] in ("cgroup", "cgroup2"):
            found.append((fields[3], fields[4], tail[0], set(tail[2].split(","))))
    return found


def _levels(mount: Path, mount_root: str, group: str) -> list[Path]:
    """Return the group's directory and each one above it up to the mount."""
    inside = group
    if mount_root != "/" and (group == mount_root or group.startswith(mount_root + "/")):
        inside = group[len(mount_root) :]
    own = mount / inside.strip("/")
    if ".." in inside or not own.is_dir():
        own = mount
    levels = [own]
    while levels[-1] != mount:
        levels.append(levels[-1].parent)
    return levels


def _memory_v2(level: Path) -> MemoryLimit | None:
    limits = [value for name in ("memory.max", "memory.high") if (value := read_int(level / name)) is not None]
    if not limits:
        return None
    used = read_int(level / "memory.current")
    inactive = read_fields(level / "memory.stat").get("inactive_file", 0)
    return MemoryLimit(min(limits), None if used is None else max(0, used - inactive), "cgroup v2")


def _memory_v1(level: Path) -> MemoryLimit | None:
    limit = read_int(level / "memory.limit_in_bytes")
    if limit is None or limit >= _UNLIMITED_BYTES:
        return None
    used = read_int(level / "memory.usage_in_bytes")
    fields = read_fields(level / "memory.stat")
    inactive = fields.get("total_inactive_file", fields.get("inactive_file", 0))
    return MemoryLimit(limit, None if used is None else max(0, used - inactive), "cgroup v1")


def _cpu_v2(level: Path) -> CpuQuota | None:
    quota, _, period = (read_text(level / "cpu.max") or "").partition(" ")
    if not quota.isdigit() or not period.strip().isdigit() or not int(period):
        return None
    return CpuQuota(int(quota) / int(period), level / "cpu.stat")


def _cpu_v1(level: Path, accounting: Path) -> CpuQuota | None:
    quota, period = read_int(level / "cpu.cfs_quota_us"), read_int(level / "cpu.cfs_period_us")
    if quota is None or quota <= 0 or not period:
        return None
    return CpuQuota(quota / period, accounting / "cpuacct.usage")
