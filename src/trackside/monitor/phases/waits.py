"""Waiting for peers, wherever it blocks this process."""

import sys
from collections.abc import Callable
from typing import Any

from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.names import COLLECTIVE
from trackside.monitor.phases.timed import TimedCall, TimedMethod
from trackside.monitor.phases.track import Track


class WaitWatch:
    """Times what every collective of torch's comes down to.

    A collective that is not asynchronous starts a `Work` and waits for it, in whatever way it was imported, and FSDP waits
    for its own in the same way. Beside it there are three that block by themselves: DistributedDataParallel's broadcast
    of buffers, the monitored barrier, and tensors that are still on their way.
    """

    def __init__(self, marks: Track, borders: Borders) -> None:
        self._track, self._borders = marks, borders
        self._is_compiling: Callable[[], bool] = sys.modules["torch"].compiler.is_dynamo_compiling
        self.sees_all = False
        """Whether the one that counts is among them."""

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        places = [
            ("torch.distributed", "Work", "wait", True),
            ("torch.distributed", "ProcessGroup", "monitored_barrier", True),
            ("torch.nn.parallel.distributed", "DistributedDataParallel", "_distributed_broadcast_coalesced", False),
            ("torch.distributed._functional_collectives", "AsyncCollectiveTensor", "trigger_wait", False),
            ("torch.distributed._functional_collectives", "AsyncCollectiveTensor", "wait", False),
        ]
        found: list[TimedMethod] = []
        for module, name, method, only_exact in places:
            owner = getattr(sys.modules.get(module), name, None)
            if isinstance(owner, type) and method in owner.__dict__:
                found.append(TimedMethod(owner, method, self._begin, only_exact=only_exact))
                self.sees_all = self.sees_all or name == "Work"
        return found

    def _begin(self, original: Callable[..., Any], instance: Any) -> TimedCall | None:
        if not self._borders.is_ours or self._is_compiling():
            return None
        call = TimedCall(original, instance)
        self._track.note_cores()
        call.end, call.about = self._end, self._track.enter(COLLECTIVE)
        return call

    def _end(self, before: str | None) -> None:
        self._track.note_cores()
        self._track.leave(COLLECTIVE, before)
