"""What the machine does: CPU, memory, network, disk, GPUs, torch's allocator, of a host or of one rank.

Readings only: nothing here sends, starts a thread, imports torch, numpy or asyncio, or creates a CUDA context. A
figure that cannot be read is None, alone; it never takes another with it. Each sampler lives in the one thread that
calls it (`trackside-sample`, or the launcher's), because a driver call may hang.
"""

from trackside.monitor.samplers.hardware import hardware_parts
from trackside.monitor.samplers.host import HostSampler
from trackside.monitor.samplers.rank import RankSampler

__all__ = ["HostSampler", "RankSampler", "hardware_parts"]
