"""One rank: its process tree, its device, torch's allocator."""

import os
import time
from collections.abc import Callable, Mapping

from trackside.monitor.samplers.cgroup import Cgroup, usable_cpus
from trackside.monitor.samplers.gpu import RankGpu
from trackside.monitor.samplers.patience import Patience
from trackside.monitor.samplers.torch_memory import AllocatorFigures, allocator_figures
from trackside.monitor.samplers.tree import ProcessTree
from trackside.wire.messages import RankSample


class RankSampler:
    """Samples a rank from inside, or from the launcher.

    Args:
        pid: The rank's process.
        local_rank: Which of the visible GPUs is its own; None in a single process.
        environ: The rank's environment, for `CUDA_VISIBLE_DEVICES`.
        clock: Monotonic seconds.
        driver: Makes the driver's calls; None: one of its own.

    Threads: one, always the same.
    """

    def __init__(
        self,
        pid: int,
        local_rank: int | None,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
        driver: Patience | None = None,
    ) -> None:
        self._clock = clock
        self._inside = pid == os.getpid()
        self._cpus = usable_cpus(Cgroup().cpu())
        self._tree = ProcessTree(pid)
        self._gpu = RankGpu(environ, local_rank, same_process=self._inside, driver=driver)
        self._since = clock()

    @property
    def gpu_uuid(self) -> str | None:
        """UUID of the rank's device; None without one."""
        return self._gpu.device.uuid if self._gpu.device else None

    @property
    def watches_gpus(self) -> bool:
        """Whether ticks read anything: this machine has a GPU, whosoever it is."""
        return self._gpu.has_driver

    def tick(self) -> None:
        """Read the device once; cheap, to be called several times a second. Blocks: for the driver, a few seconds at most."""
        self._gpu.tick()

    def sample(self) -> RankSample:
        """Return the figures of the interval since the last call. A rank that has gone has none."""
        now = self._clock()
        interval_s, self._since = now - self._since, now
        tree = self._tree.read()
        allocator = allocator_figures() if self._inside else AllocatorFigures()
        cpu = None
        if tree and self._cpus and interval_s > 0:
            cpu = min(1.0, tree.cpu_seconds / interval_s / self._cpus)
        return RankSample(
            cpu=cpu,
            memory=tree.memory_bytes if tree else None,
            processes=tree.processes if tree else None,
            gpu=self._gpu.sample(),
            torch_allocated=allocator.allocated,
            torch_reserved=allocator.reserved,
            torch_peak=allocator.peak,
        )

    def close(self) -> None:
        """Let the driver go. Idempotent."""
        self._gpu.close()
