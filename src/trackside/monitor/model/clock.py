"""The time of something: the host's clock, or a device's events that are read once they have happened."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Takes marks and says what lies between two. Blocks: never."""

    on_device: bool

    def mark(self) -> Any:
        """This moment, in the order of the work."""
        ...

    def has_passed(self, mark: Any) -> bool:
        """Whether the marks up to this one can be read without waiting."""
        ...

    def seconds(self, since: Any, mark: Any) -> float:
        """Seconds from one mark to another; both have passed."""
        ...


class HostClock:
    """`perf_counter`: what a CPU job's work takes."""

    on_device = False

    def mark(self) -> float:
        return time.perf_counter()

    def has_passed(self, mark: float) -> bool:
        return True

    def seconds(self, since: float, mark: float) -> float:
        return mark - since


def _timing_event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class DeviceClock:
    """Events on the current stream: the host goes on, the device writes down when it comes by.

    Args:
        make: a new event; one of CUDA.
    """

    on_device = True

    def __init__(self, make: Callable[[], Any] = _timing_event) -> None:
        self._make = make

    def mark(self) -> Any:
        event = self._make()
        event.record()
        return event

    def has_passed(self, mark: Any) -> bool:
        return bool(mark.query())

    def seconds(self, since: Any, mark: Any) -> float:
        return float(since.elapsed_time(mark)) / 1000
