"""One host: CPU, memory, network, disk, every GPU; the container's limits where they are the tighter ones."""

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

from trackside.monitor.samplers.cgroup import Cgroup, CpuQuota, usable_cpus, used_cpu_seconds
from trackside.monitor.samplers.files import read_text
from trackside.monitor.samplers.gpu import HostGpus
from trackside.monitor.samplers.hardware import meminfo
from trackside.monitor.samplers.patience import Patience
from trackside.monitor.samplers.window import Rate
from trackside.wire.messages import HostSample

_SECTOR_BYTES = 512
"""`/proc/diskstats` counts these, whatever the device's own sector size."""


class HostSampler:
    """Samples the host this process runs on.

    Args:
        directory: A folder on the file system whose space is reported.
        our_gpu_uuids: Devices this job has; None when that is not known.
        clock: Monotonic seconds.
        root: Where `/proc` and `/sys` are; another one in tests.
        driver: Makes the driver's calls; None: one of its own.

    Threads: one, always the same.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        our_gpu_uuids: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        root: Path = Path("/"),
        driver: Patience | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._root = root
        self._cgroup = Cgroup(root)
        self._quota = self._tighter_quota()
        self._gpus = HostGpus(our_gpu_uuids, driver)
        self._busy = Rate()
        self._passed = Rate()
        self._rates = {name: Rate() for name in ("sent", "received", "read", "written")}
        self._read_counters()

    @property
    def watches_gpus(self) -> bool:
        """Whether ticks read anything."""
        return self._gpus.has_any

    def tick(self) -> None:
        """Read every GPU once; cheap, to be called several times a second. Blocks: for the driver, a few seconds at most."""
        self._gpus.tick()

    def sample(self) -> HostSample:
        """Return the figures of the interval since the last call (since construction, at first)."""
        cpu, rates = self._read_counters()
        used, total, source = self._memory()
        disk_used, disk_total = self._space()
        return HostSample(
            cpu=cpu,
            cpu_count=usable_cpus(self._quota),
            cpu_limit_source=self._cpu_source(),
            memory_used=used,
            memory_total=total,
            memory_limit_source=source,
            network_sent=rates["sent"],
            network_received=rates["received"],
            disk_read=rates["read"],
            disk_written=rates["written"],
            disk_used=disk_used,
            disk_total=disk_total,
            gpus=self._gpus.sample(),
        )

    def close(self) -> None:
        """Let the driver go. Idempotent."""
        self._gpus.close()

    def _tighter_quota(self) -> CpuQuota | None:
        """The container's quota, when it leaves less than the CPUs this process may run on."""
        quota, allowed = self._cgroup.cpu(), usable_cpus(None)
        return None if quota is None or (allowed is not None and quota.cpus >= allowed) else quota

    def _cpu_source(self) -> str | None:
        allowed = usable_cpus(self._quota)
        if self._quota is not None or allowed is None:
            return None if self._quota is None else self._quota.source
        return "affinity" if allowed < (os.cpu_count() or 0) else "host"

    def _read_counters(self) -> tuple[float | None, dict[str, float | None]]:
        now = self._clock()
        counters = {**self._network(), **self._disks()}
        return self._cpu(now), {name: rate.of(counters.get(name), now) for name, rate in self._rates.items()}

    def _cpu(self, now: float) -> float | None:
        if self._quota is not None:
            cpus = self._busy.of(used_cpu_seconds(self._quota), now)
            return None if cpus is None else min(1.0, cpus / self._quota.cpus)
        busy, passed = _cpu_ticks(read_text(self._root / "proc/stat") or "")
        busy_rate, passed_rate = self._busy.of(busy, now), self._passed.of(passed, now)
        return busy_rate / passed_rate if busy_rate is not None and passed_rate else None

    def _memory(self) -> tuple[int | None, int | None, str | None]:
        figures = meminfo(self._root)
        total, available = figures.get("MemTotal"), figures.get("MemAvailable")
        limit = self._cgroup.memory()
        if limit is not None and (total is None or limit.limit_bytes < total):
            return limit.used_bytes, limit.limit_bytes, limit.source
        if total is None:
            return None, None, None
        return None if available is None else total - available, total, "host"

    def _network(self) -> dict[str, float]:
        """Bytes over physical interfaces; over all but loopback where there is none (in a container)."""
        rows = _network_rows(read_text(self._root / "proc/net/dev") or "")
        rows.pop("lo", None)
        physical = [row for name, row in rows.items() if (self._root / "sys/class/net" / name / "device").exists()]
        chosen = physical or list(rows.values())
        if not chosen:
            return {}
        return {"received": float(sum(row[0] for row in chosen)), "sent": float(sum(row[1] for row in chosen))}

    def _disks(self) -> dict[str, float]:
        """Bytes over physical disks, so that partitions, RAID and device mapper do not count again."""
        read = written = found = 0
        for line in (read_text(self._root / "proc/diskstats") or "").splitlines():
            fields = line.split()
            if len(fields) >= 10 and (self._root / "sys/block" / fields[2] / "device").exists():
                found += 1
                read += int(fields[5])
                written += int(fields[9])
        return {"read": float(read * _SECTOR_BYTES), "written": float(written * _SECTOR_BYTES)} if found else {}

    def _space(self) -> tuple[int | None, int | None]:
        try:
            space = os.statvfs(self._directory)
        except OSError:
            return None, None
        free = space.f_bfree * space.f_frsize
        total = space.f_blocks * space.f_frsize
        return total - free, total


def _cpu_ticks(text: str) -> tuple[float | None, float | None]:
    """Return (busy, all) ticks of the CPUs this process may run on. Source: `/proc/stat`."""
    allowed = {f"cpu{number}" for number in _affinity()}
    busy = passed = 0
    for line in text.splitlines():
        name, *fields = line.split()
        if name in allowed and len(fields) >= 8:
            ticks = [int(field) for field in fields[:8]]  # guest time is in user time already
            passed += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]  # idle, waiting for the disk
    return (float(busy), float(passed)) if passed else (None, None)


def _affinity() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return set(range(os.cpu_count() or 0))


def _network_rows(text: str) -> dict[str, tuple[int, int]]:
    """Read `/proc/net/dev`: interface -> (received, sent) bytes."""
    rows: dict[str, tuple[int, int]] = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if len(fields) >= 9:
            rows[name.strip()] = int(fields[0]), int(fields[8])
    return rows
