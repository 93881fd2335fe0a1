"""One real forward, recorded: which modules ran, in which order, with which tensors, and what flowed between them."""

from dataclasses import dataclass, field
from typing import Any

import torch

from trackside.monitor.model.flow import Flow
from trackside.monitor.model.tensors import spec_of, specs_of, tensors_in
from trackside.wire.documents import TensorSpec

MOST_EDGES = 20_000


@dataclass(slots=True)
class Ran:
    """One module in the recorded pass."""

    order: int
    calls: int = 0
    inputs: list[TensorSpec] = field(default_factory=list)
    outputs: list[TensorSpec] = field(default_factory=list)
    memory: int | None = None
    """Bytes that its first forward has left allocated on the device."""


@dataclass(slots=True)
class Flowed:
    """One connection."""

    tensor: TensorSpec | None
    count: int = 0


@dataclass(slots=True)
class _Frame:
    """A module that is running."""

    node: int
    sources: dict[int, torch.Tensor]
    """Where what it was given came from, with one such tensor each."""
    consumed: set[int]
    """Sources that modules below it have taken."""
    memory: int | None
    is_leaf: bool = True


class Recording:
    """Follows one pass over nodes that are numbered parents first.

    Args:
        end: by node, the first node after those below it.
        given: what the model was called with.
        on_device: whether the device's allocator can be asked.

    Threads: the one that runs the pass.
    """

    def __init__(self, end: list[int], given: list[torch.Tensor], *, on_device: bool) -> None:
        self.ran: dict[int, Ran] = {}
        self.edges: dict[tuple[int, int], Flowed] = {}
        self.with_grad = torch.is_grad_enabled()
        self._end = end
        self._flow: Flow | None = Flow(given)
        self._frames: list[_Frame] = []
        self._on_device = on_device

    def enter(self, node: int, args: Any, kwargs: Any) -> None:
        """A module begins."""
        if self._flow is None:
            return
        given = tensors_in(args, kwargs)
        ran = self.ran.setdefault(node, Ran(order=len(self.ran)))
        ran.calls += 1
        if ran.calls == 1:
            ran.inputs = specs_of(given)
        sources = {source: tensor for tensor in given for source in self._flow.sources(tensor)}
        if self._frames:
            self._frames[-1].is_leaf = False
        self._frames.append(_Frame(node, sources, set(), self._allocated() if ran.calls == 1 else None))

    def leave(self, node: int, output: Any) -> None:
        """A module has ended; those that ended by an exception in between have not."""
        if self._flow is None or all(frame.node != node for frame in self._frames):
            return
        while (frame := self._frames.pop()).node != node:
            pass
        ran = self.ran[node]
        made = tensors_in(output)
        if ran.calls == 1:
            ran.outputs = specs_of(made)
            left = self._allocated()
            ran.memory = None if left is None or frame.memory is None else left - frame.memory
        for source, tensor in frame.sources.items():
            if source not in frame.consumed:
                self._connect(source, node, tensor)
        self._keep(frame, made)
        if self._frames:
            above = self._frames[-1]
            above.consumed |= frame.consumed
            above.consumed |= frame.sources.keys()

    def close(self) -> None:
        """The pass is over; every tensor and autograd node is let go."""
        self._flow = None
        self._frames.clear()

    def _keep(self, frame: _Frame, made: list[torch.Tensor]) -> None:
        """Remember a module's outputs; what its own arithmetic made them of, its children's too, flowed into itself."""
        flow = self._flow
        if flow is None:
            return
        for tensor in made:
            sources = frozenset[int]() if frame.is_leaf else flow.sources(tensor)
            if flow.produce(tensor, frame.node, is_leaf=frame.is_leaf):
                for source in sources:
                    if source != frame.node and not self._is_within(frame.node, source):
                        self._count(source, frame.node, tensor)

    def _connect(self, source: int, target: int, tensor: torch.Tensor) -> None:
        if not self._is_within(source, target) and not self._is_within(target, source):
            self._count(source, target, tensor)

    def _count(self, source: int, target: int, tensor: torch.Tensor) -> None:
        edge = self.edges.get((source, target))
        if edge is None:
            if len(self.edges) >= MOST_EDGES:
                return
            edge = self.edges[source, target] = Flowed(spec_of(tensor))
        edge.count += 1

    def _is_within(self, node: int, other: int) -> bool:
        return other <= node < self._end[other]

    def _allocated(self) -> int | None:
        return int(torch.cuda.memory_allocated()) if self._on_device else None
