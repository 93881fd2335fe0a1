"""The long way into the buffer: calls with names never seen, with tensors, or with what is no number at all."""

from collections.abc import Callable, Mapping
from typing import Any

from trackside.monitor.buffer import MAX_LAYOUTS, Buffer, LooseCall
from trackside.monitor.convert import DeviceRead, RefusedValueError, describe, is_on_device, to_float
from trackside.monitor.guard import quietly

Refuse = Callable[[str, str], None]
"""Told (name, reason) of each value that is not taken."""

_INT64 = 2**63
_INT32 = 2**31
UNNAMED = "unnamed"


def take_call(buffer: Buffer, time: float, metrics: Any, step: Any, epoch: Any, refuse: Refuse) -> int | str:
    """Put one call, with all of it that is a number.

    Args:
        buffer: Where it goes.
        time: UTC epoch seconds of the call.
        metrics: What the user gave.
        step: Too.
        epoch: Too; -1 for none.
        refuse: See `Refuse`.

    Returns:
        Its step, or, when nothing of it could be taken, the reason as a sentence.

    Threads: any. Blocks: never.
    """
    if not isinstance(metrics, Mapping):
        return f"it takes a mapping of names to numbers such as {{'loss': 0.5}}, not {type(metrics).__name__}"
    numbered_step, numbered_epoch = _whole(step, _INT64), _whole(epoch, _INT32)
    if numbered_step is None or numbered_epoch is None:
        which, given = ("step", step) if numbered_step is None else ("epoch", epoch)
        return f"{which} must be a whole number, not {_described(given)}"
    values, device = _sort(metrics, refuse)
    if device is None and (tuple(values) in buffer.layouts or len(buffer.layouts) < MAX_LAYOUTS):
        if values:
            buffer.put(numbered_epoch, time, numbered_step, values)
    else:
        buffer.put_loose(LooseCall(time, numbered_step, numbered_epoch, values, device))
    return numbered_step


def take_values(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The values that can be read now, for an epoch's record; a device is waited for, once an epoch."""
    values, device = _sort(metrics, lambda name, reason: None)
    return {**values, **device.values()} if device is not None and device.wait(1.0) else values


def _sort(metrics: Mapping[Any, Any], refuse: Refuse) -> tuple[dict[str, float], DeviceRead | None]:
    """Values that are known now, and those of a device."""
    known: dict[str, float] = {}
    tensors: dict[str, Any] = {}
    for key, value in metrics.items():
        name = key if type(key) is str else _named(key)
        name = name or UNNAMED
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
        reasons.append(f"it is {_described(value)}, which could not be read")
    return reasons[0] if reasons else None


def _named(key: Any) -> str:
    names: list[str] = []
    quietly(lambda: names.append(str(key)))
    return names[0] if names else type(key).__name__


def _described(value: Any) -> str:
    texts: list[str] = []
    quietly(lambda: texts.append(describe(value)))
    return texts[0] if texts else f"a {type(value).__name__}"


def _whole(value: Any, bound: int) -> int | None:
    """A whole number that fits; None otherwise."""
    if type(value) is not int:
        found: list[int] = []

        def convert() -> None:
            number = int(value)
            if number == value:
                found.append(number)

        if isinstance(value, (str, bytes)) or not quietly(convert) or not found:
            return None
        value = found[0]
    return value if -bound <= value < bound else None
