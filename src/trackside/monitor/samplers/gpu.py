"""GPUs over a sampling interval: read several times a second, reported as mean and peak."""

import sys
from collections.abc import Collection, Mapping
from typing import Any

from trackside.monitor.samplers.nvml import Device, Nvml
from trackside.monitor.samplers.patience import Patience
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
        driver: Makes the calls; None: one of its own.
    """

    def __init__(self, ours: Collection[str] | None = None, driver: Patience | None = None) -> None:
        self._ours = None if ours is None else frozenset(ours)
        self._driver, self._is_own = driver or Patience(), driver is None
        self._nvml: Nvml | None = None
        self._windows: list[tuple[Device, GpuWindow]] = []
        self._driver.ask(self._open)

    @property
    def has_any(self) -> bool:
        """Whether there is a device, as far as the driver has answered."""
        return self._nvml is None or bool(self._windows)

    def tick(self) -> None:
        """Read every device once."""
        if self.has_any:
            self._driver.ask(self._tick)

    def sample(self) -> list[GpuSample]:
        """Return every device's interval; empty without a driver, or while it does not answer."""
        return (self._driver.ask(self._sample) or []) if self.has_any else []

    def close(self) -> None:
        """Let the driver go."""
        self._driver.ask(self._close)
        if self._is_own:
            self._driver.close()

    # --- in the driver's thread ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        nvml = Nvml()
        self._windows = [(device, GpuWindow(nvml, device)) for device in nvml.devices]
        self._nvml = nvml

    def _tick(self) -> None:
        if self._nvml is None:  # the driver did not answer before
            self._open()
        for _, window in self._windows:
            window.tick()

    def _sample(self) -> list[GpuSample]:
        if self._nvml is None:
            self._open()
        return [window.sample(self._is_ours(device)) for device, window in self._windows]

    def _close(self) -> None:
        self._windows = []
        if self._nvml is not None:
            self._nvml.close()

    def _is_ours(self, device: Device) -> bool | None:
        if self._ours is None or device.uuid is None:
            return None
        return device.uuid in self._ours or device.parent_uuid in self._ours


class RankGpu:
    """The one device a rank was assigned.

    Args:
        same_process: Whether the rank is this process, so that torch, once it uses CUDA, can name the device itself.
        driver: Makes the calls; None: one of its own.
    """

    def __init__(
        self, environ: Mapping[str, str], local_rank: int | None, same_process: bool, driver: Patience | None = None
    ) -> None:
        self._environ, self._given_rank = environ, local_rank
        self._local_rank = local_rank or 0
        self._ask_torch = same_process
        self._driver, self._is_own = driver or Patience(), driver is None
        self._nvml: Nvml | None = None
        self._device: Device | None = None
        self._window: GpuWindow | None = None
        self._driver.ask(self._open)

    @property
    def device(self) -> Device | None:
        """The device, None while unknown."""
        return self._device

    @property
    def has_driver(self) -> bool:
        """Whether there is any device here, known to be the rank's or not, as far as the driver has answered."""
        return self._nvml is None or bool(self._nvml.devices)

    def tick(self) -> None:
        """Read the device once."""
        if self._nvml is None or self._window is not None:
            self._driver.ask(self._tick)

    def sample(self) -> GpuSample | None:
        """Return the interval, None without a known device, or while the driver does not answer."""
        return self._driver.ask(self._sample) if self.has_driver else None

    def memory_total(self) -> int | None:
        """Bytes of the device."""
        return self._driver.ask(self._memory_total)

    def close(self) -> None:
        """Let the driver go."""
        self._driver.ask(self._close)
        if self._is_own:
            self._driver.close()

    # --- in the driver's thread ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        nvml = Nvml()
        self._device = assigned_device(self._environ, self._given_rank, nvml.devices)
        self._window = GpuWindow(nvml, self._device) if self._device else None
        self._nvml = nvml

    def _tick(self) -> None:
        if self._nvml is None:  # the driver did not answer before
            self._open()
        if self._window:
            self._window.tick()

    def _sample(self) -> GpuSample | None:
        if self._nvml is None:
            self._open()
        self._correct()
        return self._window.sample(ours=True) if self._window else None

    def _memory_total(self) -> int | None:
        return self._nvml.memory(self._device)[1] if self._nvml and self._device else None

    def _close(self) -> None:
        self._window = None
        if self._nvml is not None:
            self._nvml.close()

    def _correct(self) -> None:
        """Take the device from torch as soon as CUDA is in use there: it has numbered the cards itself."""
        nvml = self._nvml
        if not self._ask_torch or nvml is None:
            return
        uuid = _uuid_by_torch(self._local_rank)
        if uuid is None:
            return
        self._ask_torch = False
        actual = next((device for device in nvml.devices if device.uuid and uuid in device.uuid), None)
        if actual is not None and actual != self._device:
            self._device, self._window = actual, GpuWindow(nvml, actual)


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
