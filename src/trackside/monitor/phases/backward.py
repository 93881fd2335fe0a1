"""The backward pass, and in it the wait for the peers' gradients that is not hidden behind its work."""

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any

from trackside.monitor.guard import FAULTS, guarded
from trackside.monitor.phases import track
from trackside.monitor.phases.borders import BACKWARD as HAS_BACKWARD
from trackside.monitor.phases.borders import BLIND, OPTIMIZED_INSIDE, Borders
from trackside.monitor.phases.names import BACKWARD, COLLECTIVE
from trackside.monitor.phases.timed import TimedMethod
from trackside.monitor.phases.track import Track


class BackwardWatch(TimedMethod):
    """Times `Tensor.backward`.

    Autograd runs callbacks when all gradients are computed, in the order in which they were queued. Ours is queued first,
    when the loss gets its gradient; those of DistributedDataParallel and FSDP, which wait for their collectives, come
    later. So what lies between ours and the return is waiting.

    One function at each end, guard and all, for what is met here is in no cache: see `Borders`.
    """

    __slots__ = ("_engine", "_is_compiling", "_task_id", "before", "borders", "count", "handle", "marks", "under_way")

    def __init__(self, torch: Any, marks: Track, borders: Borders) -> None:
        super().__init__(torch.Tensor, "backward", lambda _original, _tensor: None)
        self.marks, self.borders = marks, borders
        self._engine = torch.autograd.Variable._execution_engine  # noqa: SLF001 - torch's own modules queue on it so
        self._task_id: Callable[[], int] = torch._C._current_graph_task_id  # noqa: SLF001 - where torch's own look
        """-1 unless autograd is at work already, as when checkpointing calls it again."""
        self._is_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling
        self.count = 0
        self.under_way = 0
        """Number of the call that is; 0: none."""
        self.before: str | None = None
        self.handle: Any = None

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        return [self]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or self._is_compiling():  # nothing of ours gets into a graph
            return self._raw.__get__(instance, owner)
        try:
            borders = self.borders
            if get_ident() != borders.owner or self._task_id() != -1:
                return self._raw.__get__(instance, owner)
            call = _BackwardCall(self._original, instance)
            if self.under_way:
                self._end_late()  # one that was looked up and is kept, but not under way
            call.watch = self
            self.count = self.under_way = call.number = self.count + 1
            gate, marks = borders.gate, self.marks
            gate.table.pop(gate.number, None)
            if borders.is_asking:  # the end of a `__next__` that is kept, and not thrown away, was not said
                borders.fetch_ended()
            if borders.is_outside:
                borders.open()
            now = monotonic()
            if now >= borders.look_at:
                borders.look_around(now)
            self.before, marks.doing = marks.doing, BACKWARD
            marks.append((track.ENTER, now, BACKWARD))
            if borders.sees_peers:
                self._wait_for_peers(instance)
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note("begin of a backward", error)
            return self._raw.__get__(instance, owner)
        return call

    def _end_late(self) -> None:
        call = _BackwardCall(int)
        call.watch, call.number = self, self.under_way

    def _wait_for_peers(self, tensor: Any) -> None:
        if _is_compiled():
            self.borders.seen |= BLIND
        elif tensor.requires_grad:
            self.handle = tensor.register_hook(self._started)

    @guarded
    def _started(self, _gradient: Any) -> None:
        self._engine.queue_callback(self._computed)

    @guarded
    def _computed(self) -> None:
        self.marks.note_cores()
        self.marks.put(track.ENTER, COLLECTIVE)
        self.marks.doing = COLLECTIVE


class _BackwardCall(functools.partial[Any]):
    """A call of `Tensor.backward` that says when it is over; see `TimedCall`."""

    __slots__ = ("number", "watch")
    number: int
    watch: BackwardWatch

    def __del__(self) -> None:
        try:
            watch = self.watch
            if self.number != watch.under_way:
                return
            watch.under_way = 0
            borders, marks = watch.borders, watch.marks
            if marks.doing == COLLECTIVE:
                marks.note_cores()
            marks.append((track.LEAVE, monotonic(), BACKWARD))
            marks.doing = watch.before
            if watch.handle is not None:
                handle, watch.handle = watch.handle, None
                handle.remove()
            borders.seen |= HAS_BACKWARD
            if borders.seen & OPTIMIZED_INSIDE:
                borders.close_inside()
            gate = borders.gate
            if gate.inside is not None:  # a forward that has raised
                gate.forget_inside()
            gate.table[gate.number] = gate.hook
        except Exception as error:  # noqa: BLE001 - the rank's guard
            FAULTS.note("end of a backward", error)


def _is_compiled() -> bool:
    """Whether compiled autograd would take our hook into its graph."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))
