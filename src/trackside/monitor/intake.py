"""The long way into the buffer: calls with tensors, or with what is no number at all."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trackside.monitor.buffer import Call, DeviceCall
from trackside.monitor.convert import DeviceRead, RefusedValueError, describe, is_on_device, to_float
from trackside.monitor.guard import quietly

Figure = TypeVar("Figure", int, float)
Refuse = Callable[[str, str], None]
"""Told (name, reason) of each value that is not taken."""

UNNAMED = "unnamed"
DEVICE_WAIT_S = 1.0
INT64 = 2**63
MOST_COUNT = 2**53
INT32 = 2**31


def tidy(epoch: Any, time: float, step: Any, metrics: Any, refuse: Refuse) -> Call | DeviceCall | str:
    """What can be saved of a call: all of it that is a number.

    Args:
        epoch: What the user gave; -1 for none.
        time: UTC epoch seconds of the call.
        step: What the user gave.
        metrics: Too.
        refuse: See `Refuse`.

    Returns:
        A call with plain values, or the reason, as a sentence, why nothing of it can be taken.

    Threads: any. Blocks: never.
    """
    if not isinstance(metrics, Mapping):
        return f"it takes a mapping of names to numbers such as {{'loss': 0.5}}, not {type(metrics).__name__}"
    whole_step, whole_epoch = whole_number(step, INT64), whole_number(epoch, INT32)
    if whole_step is None or whole_epoch is None:
        which, given = ("step", step) if whole_step is None else ("epoch", epoch)
        return f"{which} must be a whole number, not {described(given)}"
    values, device = _sort(metrics, refuse)
    if device is None:
        return (whole_epoch, time, whole_step, values)
    return DeviceCall(time, whole_step, whole_epoch, values, device)


def read_values(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch's record. Blocks: up to a second for a device, once an epoch."""
    values, device = _sort(metrics, lambda name, reason: None)
    return {**values, **device.values()} if device is not None and device.wait(DEVICE_WAIT_S) else values


def _sort(metrics: Mapping[Any, Any], refuse: Refuse) -> tuple[dict[str, float], DeviceRead | None]:
    """Values that are known now, and those of a device."""
    known: dict[str, float] = {}
    tensors: dict[str, Any] = {}
    for key, value in metrics.items():
        name = (key if type(key) is str else _named(key)) or UNNAMED
        if reason := _place(name, value, known, tensors):
            refuse(name, reason)
    return known, DeviceRead(tensors) if tensors else None


def _place(name: str, value: Any, known: dict[str, float], tensors: dict[str, Any]) -> str | None:
    """Put a value where it belongs; the reason when it belongs nowhere."""
    reasons: list[str] = []

    def place() -> None:
        try:
            if is_on_device(value):
                tensors[name] = value
            else:
                known[name] = to_float(value)
        except RefusedValueError as error:
            reasons.append(str(error))
        except OverflowError:
            reasons.append("it is too large for a float")

    if not quietly(place):
        reasons.append(f"it is {described(value)}, which could not be read")
    return reasons[0] if reasons else None


def _named(key: Any) -> str:
    names: list[str] = []
    quietly(lambda: names.append(str(key)))
    return names[0] if names else type(key).__name__


def described(value: Any) -> str:
    """What a value is, in a few words, whatever its own `repr` does."""
    texts: list[str] = []
    quietly(lambda: texts.append(describe(value)))
    return texts[0] if texts else f"a {type(value).__name__}"


def read_given(name: str, value: Any, read: Callable[[Any], Figure | None], refuse: Refuse) -> Figure | None:
    """What a call was told beside its values, or None; what cannot be is refused by name."""
    known = None if value is None else read(value)
    if known is None and value is not None:
        refuse(name, f"it is {described(value)}")
    return known


def read_count(value: Any) -> int | None:
    """A count such as of samples: whole, not negative, as the wire takes it; None for what is none."""
    count = whole_number(value, MOST_COUNT + 1)
    return None if count is None or count < 0 else count


def read_duration(value: Any) -> float | None:
    """Seconds, finite and not negative; None for what is none."""
    found: list[float] = []
    quietly(lambda: found.append(to_float(value)), is_ours=False)
    return found[0] if found and math.isfinite(found[0]) and found[0] >= 0 else None


def whole_number(value: Any, bound: int) -> int | None:
    """A whole number that fits; None otherwise."""
    if type(value) is not int:
        found: list[int] = []

        def convert() -> None:
            number = int(value)
            if number == value:
                found.append(number)

        if isinstance(value, (str, bytes)) or not quietly(convert, is_ours=False) or not found:
            return None
        value = found[0]
    return value if -bound <= value < bound else None
