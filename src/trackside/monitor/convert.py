"""Values of all the kinds users log, to floats; what is no number is refused by name."""

import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

PLAIN = frozenset((float, int, bool))
"""Types that go into the buffer as they are."""


def is_device_tensor(value: Any) -> bool:
    """Whether reading the value could wait for a device."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.device.type != "cpu"


def detach(value: Any) -> "DeviceScalar":
    """Keep a device tensor's value of this moment without waiting for the device."""
    return DeviceScalar(value)


class DeviceScalar:
    """A 0-d tensor on a device: cloned where it is, read when the device has come that far.

    Threads: made on the user's thread, read on the send thread. Blocks: never; `ready` asks the event.
    """

    __slots__ = ("_event", "_host", "_tensor")

    def __init__(self, tensor: Any) -> None:
        torch = sys.modules["torch"]
        self._tensor = tensor.detach().clone()
        self._event = None
        self._host = None
        if self._tensor.device.type == "cuda":
            self._host = self._tensor.to("cpu", non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(self._tensor.device))

    @property
    def ready(self) -> bool:
        """Whether `value` can be read without waiting."""
        return self._event is None or bool(self._event.query())

    def value(self) -> float:
        """The number. Blocks: on devices without events only."""
        return _scalar(self._host if self._host is not None else self._tensor)


def to_float(value: Any) -> float:
    """Any accepted value as a float.

    Raises:
        TypeError: not a number; the text says what it is.
    """
    if type(value) in PLAIN:
        return float(value)
    if isinstance(value, (int, float, Decimal)):
        return float(value)
    if isinstance(value, DeviceScalar):
        return value.value()
    if isinstance(value, (str, bytes, Mapping)) or value is None:
        raise TypeError(f"{type(value).__name__} {_short(value)}")
    shape = getattr(value, "shape", None)
    if shape is not None or hasattr(value, "item"):
        return _scalar(value)
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"{type(value).__name__} {_short(value)}")


def _scalar(value: Any) -> float:
    size = getattr(value, "numel", None)
    count = size() if callable(size) else getattr(value, "size", 1)
    if callable(count):
        count = 1
    if count != 1:
        raise TypeError(f"{type(value).__name__} of shape {tuple(value.shape)}; log one number, such as its mean()")
    if hasattr(value, "detach"):
        value = value.detach()
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, (complex, str)) or item is None:
        raise TypeError(f"{type(value).__name__} {_short(item)}")
    return float(item)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
