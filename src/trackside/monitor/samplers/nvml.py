"""The NVIDIA driver's management library. Each reading fails alone and is then None."""

import ctypes
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_logger = logging.getLogger("trackside.samplers")

_CLOCK_LIMITS = {
    0x02: "application clocks",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of `nvmlDeviceGetCurrentClocksEventReasons`; bit 0, an idle GPU, limits nothing."""


_LIBRARY = "libnvidia-ml.so.1"
_TEMPERATURE_OF_THE_DIE = 0
"""`NVML_TEMPERATURE_GPU`."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or one slice of a GPU in MIG mode."""

    index: int
    """Physical index of the driver; of the parent for a slice."""
    uuid: str | None
    name: str | None
    mig: bool
    handle: Any
    parent: Any
    """Handle of the whole GPU; the same as `handle` but for a slice."""
    parent_uuid: str | None
    slice_ids: tuple[int | None, int | None] = (None, None)
    """GPU instance and compute instance of a slice, as the old `MIG-GPU-…/gi/ci` names have them."""

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of a card; a card in MIG mode whose slices cannot be had stands for them whole."""
        return self.handle is not self.parent


class Nvml:
    """The driver, loaded when first asked for; a machine without one has no devices.

    It never makes a CUDA context: NVML talks to the kernel driver alone.

    Threads: the one that made it.
    Blocks: a driver that hangs, hangs its caller.
    """

    def __init__(self) -> None:
        self._library: Any = _load()
        self._devices: list[Device] | None = None

    @property
    def devices(self) -> list[Device]:
        """All devices of this machine (of this container), in the driver's order; a MIG GPU's slices stand for it."""
        if self._devices is None:
            self._devices = list(self._enumerate()) if self._library else []
        return self._devices

    def utilization(self, device: Device) -> float | None:
        """Busy ratio since the driver's own last reading (1/6 to 1 s); None on MIG slices, which have none."""
        if device.mig:
            return None
        rates = self._call("nvmlDeviceGetUtilizationRates", device.handle)
        return None if rates is None else float(rates.gpu) / 100

    def memory(self, device: Device) -> tuple[int | None, int | None]:
        """Return (used, total) bytes, what other processes hold included."""
        info = self._call("nvmlDeviceGetMemoryInfo", device.handle)
        return (None, None) if info is None else (int(info.used), int(info.total))

    def temperature(self, device: Device) -> float | None:
        """Degrees Celsius of the die."""
        degrees = self._call("nvmlDeviceGetTemperature", device.parent, _TEMPERATURE_OF_THE_DIE)
        return None if degrees is None else float(degrees)

    def power(self, device: Device) -> tuple[float | None, float | None]:
        """Return (drawn, limit) in watts; unknown for a slice, since the figure is the whole card's."""
        if device.mig:
            return None, None
        drawn_mw = self._call("nvmlDeviceGetPowerUsage", device.handle)
        limit_mw = self._call("nvmlDeviceGetEnforcedPowerLimit", device.handle)
        return (
            None if drawn_mw is None else drawn_mw / 1000,
            None if limit_mw is None else limit_mw / 1000,
        )

    def clock_limits(self, device: Device) -> list[str]:
        """Return why clocks are held down, in words; empty when they are not, or when it is unknown."""
        bits = self._call("nvmlDeviceGetCurrentClocksEventReasons", device.parent)
        if bits is None:
            bits = self._call("nvmlDeviceGetCurrentClocksThrottleReasons", device.parent)
        return [words for bit, words in _CLOCK_LIMITS.items() if bits is not None and int(bits) & bit]

    def close(self) -> None:
        """Let the driver go. Idempotent."""
        self._call("nvmlShutdown")
        self._library, self._devices = None, []

    def _enumerate(self) -> Iterator[Device]:
        for index in range(self._call("nvmlDeviceGetCount") or 0):
            handle = self._call("nvmlDeviceGetHandleByIndex", index)
            if handle is None:  # lost, or forbidden by the container
                continue
            uuid, name = self._uuid(handle), self._name(handle)
            mode = self._call("nvmlDeviceGetMigMode", handle)
            if mode is None or not mode[0]:
                yield Device(index, uuid, name, False, handle, handle, uuid)
                continue
            slices = list(self._slices(index, handle, uuid))
            yield from slices or [Device(index, uuid, name, True, handle, handle, uuid)]

    def _slices(self, index: int, parent: Any, parent_uuid: str | None) -> Iterator[Device]:
        for position in range(self._call("nvmlDeviceGetMaxMigDeviceCount", parent) or 0):
            handle = self._call("nvmlDeviceGetMigDeviceHandleByIndex", parent, position)
            if handle is None:  # that place is free
                continue
            ids = (
                self._call("nvmlDeviceGetGpuInstanceId", handle),
                self._call("nvmlDeviceGetComputeInstanceId", handle),
            )
            yield Device(index, self._uuid(handle), self._name(handle), True, handle, parent, parent_uuid, ids)

    def _uuid(self, handle: Any) -> str | None:
        return _text(self._call("nvmlDeviceGetUUID", handle))

    def _name(self, handle: Any) -> str | None:
        return _text(self._call("nvmlDeviceGetName", handle))

    def _call(self, name: str, *arguments: Any) -> Any:
        """Make one driver call; None when it is not supported, forbidden, or the card has fallen off the bus."""
        function = getattr(self._library, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except (self._library.NVMLError, UnicodeDecodeError) as error:
            _logger.debug("%s failed: %s", name, error)
            return None


def _load() -> Any:
    try:
        ctypes.CDLL(_LIBRARY)  # most machines have none, and the binding alone is 20 ms of each rank's start
        import pynvml
    except (ImportError, OSError):
        return None
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError) as error:
        _logger.debug("no NVIDIA driver: %s", error)
        return None
    return pynvml


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
