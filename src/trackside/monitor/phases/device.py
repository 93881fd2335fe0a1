"""A device's own time: events recorded at the marks, read when the device has passed them, never waited for."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from trackside.monitor.phases.track import TORN, Mark

MAX_WAITING = 20_000
"""Marks that may wait for the device; beyond, they are given up."""
MAX_SPARE = 1_000


@dataclass(frozen=True, slots=True)
class _Passing:
    """An event and the device it was recorded on; those of two devices cannot be compared."""

    event: Any
    device: int


class DeviceModule(Protocol):
    """What is asked of `torch.cuda` and modules like it."""

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        ...

    def is_current_stream_capturing(self) -> bool: ...

    def current_device(self) -> int: ...


class DeviceClock:
    """Holds marks until the device has come by, and gives them its time.

    Work on a device is only queued by the host; so an event is queued with each mark, on the stream that is current
    there. Between two events lies what the device did, or did not do while it waited for the host: waiting for a batch
    that is hidden behind the device's work takes no time, and a `sleep` that starves it takes all of its own.

    Everything happens on the training thread: while a graph is captured, asking for an event from any other one would
    spoil it.

    Args:
        module: `torch.cuda`, or a module like it.

    Threads: the training thread, and autograd's while it waits for that. Blocks: never.
    """

    def __init__(self, module: DeviceModule) -> None:
        self._module = module
        self._waiting: deque[tuple[int, float, Any, _Passing | None]] = deque()
        self._spare: dict[int, list[_Passing]] = {}
        self._last: _Passing | None = None
        self._at: float | None = None
        self._host_at = 0.0

    def hold(self, mark: Mark) -> None:
        """Keep a mark, with an event where the device is now."""
        self._waiting.append((*mark, self._record()))

    def _record(self) -> _Passing | None:
        """An event on the current stream; None while a graph is captured, which no event may get into."""
        if self._module.is_current_stream_capturing():
            return None
        device = self._module.current_device()
        spare = self._spare.setdefault(device, [])
        passing = spare.pop() if spare else _Passing(self._module.Event(enable_timing=True), device)
        passing.event.record()
        return passing

    def passed(self) -> list[Mark]:
        """Return the marks that the device has passed by now, in its time, in order."""
        if self._module.is_current_stream_capturing():
            return []
        passed: list[Mark] = []
        waiting = self._waiting
        while waiting and (waiting[0][3] is None or waiting[0][3].event.query()):
            code, host_at, about, passing = waiting.popleft()
            passed.append((code, self._time_of(passing, host_at), about))
        if len(waiting) > MAX_WAITING:
            passed.append((TORN, waiting[-1][1], None))
            waiting.clear()
        return passed

    def _time_of(self, passing: _Passing | None, host_at: float) -> float:
        """The device's time there, counted from the host's at the first mark."""
        last = self._last
        if self._at is None:
            self._at = host_at
        elif passing is not None and last is not None and passing.device == last.device:
            self._at += max(0.0, last.event.elapsed_time(passing.event) / 1e3)
        else:
            self._at += max(0.0, host_at - self._host_at)
        self._host_at = host_at
        if passing is not None:
            self._last = passing
            if last is not None and len(self._spare[last.device]) < MAX_SPARE:
                self._spare[last.device].append(last)
        return self._at
