"""Copies from the host to a device."""

from collections.abc import Callable
from typing import Any

from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.names import TRANSFER
from trackside.monitor.phases.timed import TimedCall, TimedMethod
from trackside.monitor.phases.track import Track


class TransferWatch:
    """Times `to` and `cuda` of tensors that lie on the host, in the body of a step; only where there is a device."""

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        self._torch, self._track, self._borders = torch, marks, borders

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        places = [(owner, name) for owner in self._torch.Tensor.__mro__ for name in ("to", "cuda")]
        return [
            TimedMethod(self._torch.Tensor, name, self._begin, defined_in=owner)
            for owner, name in places
            if name in owner.__dict__
        ]

    def _begin(self, original: Callable[..., Any], tensor: Any) -> TimedCall | None:
        if not tensor.is_cpu or self._borders.is_asking or not self._borders.is_ours:
            return None
        if self._torch.compiler.is_dynamo_compiling():
            return None
        call = TimedCall(original, tensor)
        call.end, call.about = self._end, self._track.enter(TRANSFER)
        return call

    def _end(self, before: str | None) -> None:
        self._track.leave(TRANSFER, before)
