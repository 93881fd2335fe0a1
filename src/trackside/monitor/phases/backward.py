"""The backward pass, and in it the wait for the peers' gradients that is not hidden behind its work."""

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any

from trackside.monitor.guard import guarded
from trackside.monitor.phases import track
from trackside.monitor.phases.borders import BACKWARD as HAS_BACKWARD
from trackside.monitor.phases.borders import BLIND, OPTIMIZED_INSIDE, Borders, ForwardWatch
from trackside.monitor.phases.names import BACKWARD, COLLECTIVE
from trackside.monitor.phases.timed import TimedCall, TimedMethod
from trackside.monitor.phases.track import Track


class BackwardWatch:
    """Times `Tensor.backward`.

    Autograd runs callbacks when all gradients are computed, in the order in which they were queued. Ours is queued first,
    when the loss gets its gradient; those of DistributedDataParallel and FSDP, which wait for their collectives, come
    later. So what lies between ours and the return is waiting.
    """

    def __init__(self, torch: Any, marks: Track, borders: Borders, forward: ForwardWatch) -> None:
        self._torch, self._track, self._borders, self._forward = torch, marks, borders, forward
        self._engine = torch.autograd.Variable._execution_engine  # noqa: SLF001 - torch's own modules queue on it so
        self._task_id: Callable[[], int] = torch._C._current_graph_task_id  # noqa: SLF001 - where torch's own look
        """-1 unless autograd is at work already, as when checkpointing calls it again."""
        self._is_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling
        self._token: object = None
        """Of the call that is under way."""
        self._before: str | None = None
        self._handle: Any = None

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        return [TimedMethod(self._torch.Tensor, "backward", self._begin)]

    @guarded
    def _begin(self, original: Callable[..., Any], tensor: Any) -> TimedCall | None:
        borders, marks = self._borders, self._track
        if self._is_compiling() or self._task_id() != -1 or get_ident() != borders.owner:
            return None
        if self._token is not None:
            self._end(self._token)  # one that was looked up and is kept, but not under way
        call, self._token = TimedCall(original, tensor), object()
        call.end, call.about = self._end, self._token
        self._forward.disarm()
        if borders.is_asking:  # the end of a `__next__` that is kept, and not thrown away, was not said
            borders.fetch_ended()
        if borders.is_outside:
            borders.open()
        now = monotonic()
        if now >= borders.look_at:
            borders.look_around(now)
        self._before, marks.doing = marks.doing, BACKWARD
        marks.append((track.ENTER, now, BACKWARD))
        if borders.sees_peers:
            if _is_compiled():
                borders.seen |= BLIND
            elif tensor.requires_grad:
                self._handle = tensor.register_hook(self._started)
        return call

    def _end(self, token: object) -> None:
        if token is None or token is not self._token:
            return
        self._token = None
        borders, marks = self._borders, self._track
        if marks.doing == COLLECTIVE:
            marks.note_cores()
        marks.append((track.LEAVE, monotonic(), BACKWARD))
        marks.doing = self._before
        if self._handle is not None:
            handle, self._handle = self._handle, None
            handle.remove()
        borders.seen |= HAS_BACKWARD
        if borders.seen & OPTIMIZED_INSIDE:
            borders.close_inside()
        self._forward.arm()

    @guarded
    def _started(self, _gradient: Any) -> None:
        self._engine.queue_callback(self._computed)

    @guarded
    def _computed(self) -> None:
        self._track.note_cores()
        self._track.put(track.ENTER, COLLECTIVE)
        self._track.doing = COLLECTIVE


def _is_compiled() -> bool:
    """Whether compiled autograd would take our hook into its graph."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))
