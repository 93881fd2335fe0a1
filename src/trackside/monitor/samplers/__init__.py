"""What the machine does: CPU, memory, network, disk, GPUs, torch's allocator, of a host or of one rank.

Readings only: nothing here sends, imports torch, numpy or asyncio, or creates a CUDA context. A figure that cannot be
read is None, alone; it never takes another with it. Each sampler lives in the one thread that calls it
(`trackside-sample`, or the launcher's); where there is a GPU, the driver is called from `trackside-driver`, because such
a call may hang.
"""

from trackside.monitor.samplers.hardware import hardware_parts
from trackside.monitor.samplers.host import HostSampler
from trackside.monitor.samplers.patience import Patience
from trackside.monitor.samplers.rank import RankSampler

__all__ = ["HostSampler", "Patience", "RankSampler", "hardware_parts"]
