"""Values of all the kinds users log, to floats; what is no number is refused by name."""

import sys
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

PLAIN = frozenset((float, int, bool))
"""Types that are packed as they are."""
_MOST_TEXT = 60


class RefusedValueError(Exception):
    """A value that is no number; the text says what it is, for people."""


class DeviceRead:
    """0-d tensors of one call that lie on a device: copied off it in the order of its work, read when that is done.

    Threads: made on the user's thread, read on the send thread. Blocks: never, except `values`, for devices without
    events.
    """

    __slots__ = ("_events", "_hosts")

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        torch = sys.modules["torch"]
        self._events: list[Any] = []
        self._hosts: dict[str, Any] = {}
        devices = set()
        for name, tensor in tensors.items():
            if tensor.device.type == "cuda":
                # Into pinned memory, behind the work that makes the value and before any that overwrites it.
                self._hosts[name] = tensor.detach().to("cpu", non_blocking=True)
                devices.add(tensor.device)
            else:
                self._hosts[name] = tensor.detach().clone()
        for device in devices:
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(device))
            self._events.append(event)

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def is_ready(self) -> bool:
        """Whether the values can be read without waiting. Raises: RuntimeError when the device has failed."""
        return all(event.query() for event in self._events)

    def wait(self, seconds: float) -> bool:
        """Wait until they can be read; return whether they can. Blocks: up to `seconds`."""
        deadline = time.monotonic() + seconds
        while not self.is_ready:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.001)
        return True

    def values(self) -> dict[str, float]:
        """The numbers. Raises: RuntimeError when the device has failed."""
        return {name: float(host.item()) for name, host in self._hosts.items()}


def is_on_device(value: Any) -> bool:
    """Whether reading the value could wait for a device.

    Raises:
        RefusedValueError: a tensor that must not be copied now.
    """
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    if kind is None or not isinstance(value, kind) or value.device.type in ("cpu", "meta"):
        return False
    _check_one(value)
    cuda = getattr(torch, "cuda", None)
    if value.device.type == "cuda" and cuda is not None and cuda.is_current_stream_capturing():
        raise RefusedValueError("a tensor of a CUDA graph that is being captured; log it after the replay")
    return True


def to_float(value: Any) -> float:
    """Any accepted value as a float; nothing is waited for, no collective is called.

    Raises:
        RefusedValueError: not a number, or one that only several ranks together could tell.
        Exception: whatever the object's own conversion raises.
    """
    if isinstance(value, (float, int, Decimal)):
        return float(value)
    if value is None or isinstance(value, (str, bytes, bytearray, Mapping)):
        raise RefusedValueError(f"it is {describe(value)}, not a number")
    if hasattr(value, "placements"):
        value = _local_part(value)
    if hasattr(value, "trigger_wait"):
        raise RefusedValueError("the result of a collective that may still run; log it after using it")
    if hasattr(value, "item"):
        return _from_scalar(value)
    if hasattr(value, "__float__"):
        return float(value)
    raise RefusedValueError(f"it is {describe(value)}, not a number")


def _local_part(value: Any) -> Any:
    """What this rank holds of a distributed tensor, when that is the whole."""
    if all(placement.is_replicate() for placement in value.placements):
        return value.to_local()
    raise RefusedValueError("a distributed tensor that is not replicated; log value.full_tensor()")


def _from_scalar(value: Any) -> float:
    _check_one(value)
    item = value.item()
    if isinstance(item, (float, int, Decimal)):
        return float(item)
    raise RefusedValueError(f"it is {describe(value)}, not a number")


def _check_one(value: Any) -> None:
    """Refuse what has a shape of more than one number."""
    shape = getattr(value, "shape", ())
    count = 1
    for length in shape:
        count *= int(length)
    if count != 1:
        raise RefusedValueError(f"a {type(value).__name__} of shape {tuple(shape)}; log one number, such as its mean()")


def describe(value: object) -> str:
    """What a value is, in a few words. Raises: whatever its own `repr` raises."""
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
