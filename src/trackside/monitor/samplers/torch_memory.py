"""torch's CUDA allocator, only once the program itself has torch and a CUDA context."""

import sys
from typing import Any, NamedTuple


class AllocatorFigures(NamedTuple):
    """Bytes of this process over all its devices; None without torch, or without CUDA in use."""

    allocated: int | None = None
    reserved: int | None = None
    peak: int | None = None
    """Most bytes allocated at once since the program began or reset it."""


def allocator_figures() -> AllocatorFigures:
    """Return the allocator's figures. Never imports torch, never makes a context, never waits for the device.

    Source: `torch.cuda.memory_stats`, host-side counters of the caching allocator.
    """
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return AllocatorFigures()
        stats = [torch.cuda.memory_stats(device) for device in range(torch.cuda.device_count())]
    except (AttributeError, RuntimeError, ImportError):  # half imported, another version, a CUDA error
        return AllocatorFigures()
    return AllocatorFigures(
        allocated=_sum(stats, "allocated_bytes.all.current"),
        reserved=_sum(stats, "reserved_bytes.all.current"),
        peak=_sum(stats, "allocated_bytes.all.peak"),
    )


def _sum(stats: list[Any], key: str) -> int | None:
    known = [int(device[key]) for device in stats if key in device]
    return sum(known) if known else None
