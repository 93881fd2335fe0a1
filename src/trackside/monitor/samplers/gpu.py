"""GPUs over a sampling interval: read several times a second, reported as mean and peak."""

import sys
from collections.abc import Collection, Mapping
from typing import Any

from trackside.monitor.samplers.nvml import Device, Nvml
from trackside.monitor.samplers.visible import assigned_device
from trackside.monitor.samplers.window import Window
from trackside.wire.messages import GpuSample


class GpuWindow:
    """One device over one interval after another."""

    def __init__(self, nvml: Nvml, device: Device) -> None:
        self._nvml = nvml
        self._device = device
        self._util = Window()
        self._used = Window()
        self._total: int | None = None

    def tick(self) -> None:
        """Read what changes fast: utilisation and memory."""
        self._util.add(self._nvml.utilization(self._device))
        used, total = self._nvml.memory(self._device)
        self._used.add(used)
        self._total = total if total is not None else self._total

    def sample(self, ours: bool | None = None) -> GpuSample:
        """Return the interval's figures and begin the next interval."""
        self.tick()
        device = self._device
        util, util_peak = self._util.close()
        used, used_peak = self._used.close()
        power, power_limit = self._nvml.power(device)
        return GpuSample(
            index=device.index,
            uuid=device.uuid,
            name=device.name,
            util=util,
            util_peak=util_peak,
            memory_used=None if used is None else round(used),
            memory_peak=None if used_peak is None else round(used_peak),
            memory_total=self._total,
            temperature=self._nvml.temperature(device),
            power=power,
            power_limit=power_limit,
            clock_limits=self._nvml.clock_limits(device),
            mig=device.mig,
            ours=ours,
        )


class HostGpus:
    """All GPUs of the host, whoever uses them.

    Args:
        ours: UUIDs of the devices this job has; None when that is not known.
    """

    def __init__(self, ours: Collection[str] | None = None) -> None:
        self._nvml = Nvml()
        self._ours = None if ours is None else frozenset(ours)
        self._windows = [(device, GpuWindow(self._nvml, device)) for device in self._nvml.devices]

    def tick(self) -> None:
        """Read every device once."""
        for _, window in self._windows:
            window.tick()

    def sample(self) -> list[GpuSample]:
        """Return every device's interval; empty without a driver."""
        return [window.sample(self._is_ours(device)) for device, window in self._windows]

    def close(self) -> None:
        """Let the driver go."""
        self._windows = []
        self._nvml.close()

    def _is_ours(self, device: Device) -> bool | None:
        if self._ours is None or device.uuid is None:
            return None
        return device.uuid in self._ours or device.parent_uuid in self._ours


class RankGpu:
    """The one device a rank was assigned.

    Args:
        same_process: Whether the rank is this process, so that torch, once it uses CUDA, can name the device itself.
    """

    def __init__(self, environ: Mapping[str, str], local_rank: int | None, same_process: bool) -> None:
        self._nvml = Nvml()
        self._local_rank = local_rank or 0
        self._ask_torch = same_process
        self._device = assigned_device(environ, local_rank, self._nvml.devices)
        self._window = GpuWindow(self._nvml, self._device) if self._device else None

    @property
    def device(self) -> Device | None:
        """The device, None while unknown."""
        return self._device

    @property
    def has_driver(self) -> bool:
        """Whether there is any device here, known to be the rank's or not."""
        return bool(self._nvml.devices)

    def tick(self) -> None:
        """Read the device once."""
        if self._window:
            self._window.tick()

    def sample(self) -> GpuSample | None:
        """Return the interval, None without a known device."""
        self._correct()
        return self._window.sample(ours=True) if self._window else None

    def memory_total(self) -> int | None:
        """Bytes of the device."""
        return self._nvml.memory(self._device)[1] if self._device else None

    def close(self) -> None:
        """Let the driver go."""
        self._window = None
        self._nvml.close()

    def _correct(self) -> None:
        """Take the device from torch as soon as CUDA is in use there: it has numbered the cards itself."""
        if not self._ask_torch or not self._nvml.devices:
            return
        uuid = _uuid_by_torch(self._local_rank)
        if uuid is None:
            return
        self._ask_torch = False
        actual = next((device for device in self._nvml.devices if device.uuid and uuid in device.uuid), None)
        if actual is not None and actual != self._device:
            self._device, self._window = actual, GpuWindow(self._nvml, actual)


def _uuid_by_torch(local_rank: int) -> str | None:
    torch: Any = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return None
        count = torch.cuda.device_count()
        if local_rank >= count and count != 1:
            return None
        return str(torch.cuda.get_device_properties(min(local_rank, count - 1)).uuid)
    except (AttributeError, RuntimeError, ImportError):  # half imported, another version, a CUDA error
        return None
