"""What a rank runs on, in words."""

import os
from collections.abc import Mapping
from pathlib import Path

from trackside.monitor.samplers.files import read_text
from trackside.monitor.samplers.gpu import RankGpu
from trackside.monitor.samplers.patience import Patience

_GB = 1 << 30


def hardware_parts(
    environ: Mapping[str, str], local_rank: int | None, driver: Patience | None = None
) -> tuple[str, str | None]:
    """Return (CPU, GPU) for the hardware line: `<model> (<threads> threads, <N> GB)` and `<model> (<N> GB)`.

    What cannot be read is left out; an unknown CPU is `Unknown CPU`. The figures are the machine's, not the container's.

    Returns:
        The GPU part is None when the rank has none, or when the driver does not answer.
    Blocks: a few milliseconds; for a driver that hangs, a few seconds.
    """
    threads, memory_bytes = cpu_threads(), machine_memory_bytes()
    facts = [f"{threads} threads"] if threads else []
    facts += [f"{round(memory_bytes / _GB)} GB"] if memory_bytes else []
    gpu = RankGpu(environ, local_rank, same_process=True, driver=driver)
    try:
        return _with_facts(cpu_model() or "Unknown CPU", facts), _gpu_text(gpu)
    finally:
        gpu.close()


def cpu_model() -> str | None:
    """Return the CPU's name, None when the machine does not say. Source: `/proc/cpuinfo`."""
    for line in (read_text(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Hardware", "cpu model", "Processor") and value.strip():
            return " ".join(value.split())
    return None


def cpu_threads() -> int | None:
    """Return the machine's hardware threads."""
    return os.cpu_count()


def machine_memory_bytes() -> int | None:
    """Return the machine's memory, bytes. Source: `/proc/meminfo`, MemTotal."""
    return meminfo().get("MemTotal")


def meminfo(root: Path = Path("/")) -> dict[str, int]:
    """Return `/proc/meminfo` in bytes; empty when unreadable."""
    figures: dict[str, int] = {}
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            figures[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return figures


def _gpu_text(gpu: RankGpu) -> str | None:
    if gpu.device is None:
        return None
    total = gpu.memory_total()
    return _with_facts(gpu.device.name or "Unknown GPU", [f"{round(total / _GB)} GB"] if total else [])


def _with_facts(name: str, facts: list[str]) -> str:
    return f"{name} ({', '.join(facts)})" if facts else name
