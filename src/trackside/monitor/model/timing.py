"""What one measured pass took, module by module, forward and backward.

Backward is not measured by torch's own backward hooks on modules: they put a function of their own round the inputs and
outputs, which forbids in-place operations behind them. A module's backward begins when the autograd node of its output
is about to run, and ends when the nodes that its inputs went into have run; both are said by hooks on those nodes, which
are gone with the graph.
"""

import sys
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from trackside.monitor.guard import ask
from trackside.monitor.model.clock import Clock
from trackside.monitor.model.tensors import grad_node, tensors_in

MOST_INSIDE = 64
"""Autograd nodes of a module without children that are looked at for where its backward ends."""
MARK_S = 3e-6
"""About what one mark in backward costs, Python and interpreter lock included."""
CALL_S = 3e-6
"""About what torch's own way through two hooks costs."""


@dataclass(slots=True)
class _Call:
    """One call of one module."""

    node: int
    parent: "_Call | None"
    given: list[Any]
    """Autograd nodes of what it was given."""
    began: Any = None
    ended: Any = None
    spent_before: float = 0.0
    spent_inside: float = 0.0
    has_children: bool = False
    backward_began: list[Any] = field(default_factory=list)
    backward_ended: list[Any] = field(default_factory=list)


class Mark:
    """A hook on an autograd node that notes the first time it runs."""

    __slots__ = ("_clock", "_into", "_pass")

    def __init__(self, measured: "MeasuredPass", clock: Clock, into: list[Any]) -> None:
        self._pass: Any = measured
        self._clock = clock
        self._into: list[Any] | None = into

    def __call__(self, *grads: Any) -> None:
        into, self._into = self._into, None
        measured, self._pass = self._pass, _OVER
        if into is None or measured.is_over:
            return
        mark = ask(self._clock.mark)
        if mark is not None:
            into.append(mark)
            measured.last_mark = mark


class MeasuredPass:
    """Times of one pass; backward's come in after the forward has ended.

    Args:
        clock: takes the marks.

    Threads: the one that runs the forward, and autograd's.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_over = False
        self.last_mark: Any = None
        self.spent_s = 0.0
        """What measuring itself took of the training thread's time."""
        self.waits_for_backward = torch.is_grad_enabled() and not _is_autograd_compiled()
        self.on_device = clock.on_device
        self._clock = clock
        self._calls: list[_Call] = []
        self._running: list[_Call] = []
        self._marked: set[Any] = set()

    def enter(self, node: int, args: Any, kwargs: Any) -> None:
        """A module begins."""
        asked = time.perf_counter()
        given = self._nodes(args, kwargs) if self.waits_for_backward else []
        parent = self._running[-1] if self._running else None
        if parent is not None:
            parent.has_children = True
        call = _Call(node, parent, given)
        self._calls.append(call)
        self._running.append(call)
        self.spent_s += time.perf_counter() - asked + CALL_S
        call.spent_before = self.spent_s
        call.began = self.last_mark = self._clock.mark()

    def leave(self, node: int, output: Any) -> None:
        """A module has ended."""
        ended, asked = self._clock.mark(), time.perf_counter()
        if all(call.node != node for call in self._running):
            return
        while (call := self._running.pop()).node != node:
            pass
        call.ended = self.last_mark = ended
        call.spent_inside = self.spent_s - call.spent_before
        if self.waits_for_backward:
            self._expect_backward(call, output)
        call.given = []
        self.spent_s += time.perf_counter() - asked

    def end_forward(self) -> None:
        """The pass has been through the model; only backward is still to come."""
        self._running.clear()
        self.waits_for_backward = self.waits_for_backward and bool(self._marked)
        self._marked.clear()

    @property
    def has_backward(self) -> bool:
        """Whether the gradients have come by."""
        return any(call.backward_began or call.backward_ended for call in self._calls)

    def is_ready(self) -> bool:
        """Whether everything so far can be read without waiting."""
        return self.last_mark is None or self._clock.has_passed(self.last_mark)

    def settle(self) -> dict[int, tuple[float, float | None]]:
        """Forward and backward seconds of the pass by node, all calls of it together; None: not known."""
        self.is_over = True
        found: dict[int, tuple[float, float | None]] = {}
        if not self._calls:
            return found
        origin = self._calls[0].began
        for call, backward in zip(self._calls, self._backward(origin), strict=True):
            if call.ended is None:
                continue
            forward = self._clock.seconds(call.began, call.ended)
            if not self._clock.on_device:
                forward = max(0.0, forward - call.spent_inside)
            known = found.get(call.node, (0.0, None))
            both = backward if known[1] is None or backward is None else known[1] + backward
            found[call.node] = (known[0] + forward, both if both is not None else known[1])
        return found

    def _backward(self, origin: Any) -> list[float | None]:
        """Seconds of each call's backward; a module's lasts from the first to the last of its children's."""
        spans: dict[int, tuple[float, float]] = {}
        for call in reversed(self._calls):
            began = [self._clock.seconds(origin, mark) for mark in call.backward_began]
            ended = [self._clock.seconds(origin, mark) for mark in call.backward_ended]
            below = spans.get(id(call))
            if below is not None:
                began, ended = [*began, below[0]], [*ended, below[1]]
            if not began or not ended:
                continue
            span = spans[id(call)] = (min(began), max(ended))
            if call.parent is not None:
                above = spans.get(id(call.parent), span)
                spans[id(call.parent)] = (min(above[0], span[0]), max(above[1], span[1]))
        known = [spans.get(id(call)) for call in self._calls]
        return [None if each is None else max(0.0, each[1] - each[0]) for each in known]

    def _expect_backward(self, call: _Call, output: Any) -> None:
        for node in self._nodes(output):
            if node in call.given:
                continue  # handed on as it was
            if node not in self._marked:
                self._marked.add(node)
                node.register_prehook(Mark(self, self._clock, call.backward_began))
                self.spent_s += MARK_S
            if not call.has_children:
                for entry in _entries(node, call.given):
                    entry.register_hook(Mark(self, self._clock, call.backward_ended))
                    self.spent_s += MARK_S

    def _nodes(self, *values: Any) -> list[Any]:
        nodes = map(grad_node, tensors_in(*values))
        return [node for node in nodes if node is not None]


def _entries(node: Any, given: list[Any]) -> list[Any]:
    """The nodes behind `node` that what was given, or parameters alone, went into; none when there are too many."""
    seen, stack, entries = {node}, [node], []
    while stack:
        current = stack.pop()
        inner = [
            before
            for before, _ in current.next_functions
            if before is not None and before not in given and not hasattr(before, "variable")
        ]
        if not inner:
            entries.append(current)
        for before in inner:
            if before not in seen:
                seen.add(before)
                stack.append(before)
        if len(seen) > MOST_INSIDE:
            return []
    return entries


def _is_autograd_compiled() -> bool:
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))


class _Nothing:
    """In place of a pass that is over, so that a graph somebody keeps does not keep its measurements."""

    is_over = True
    last_mark: Any = None


_OVER: Any = _Nothing()
