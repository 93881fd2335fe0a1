"""How many parameters a model has, each module's own and its children's, shared ones once."""

from dataclasses import dataclass, field
from typing import Any

from torch.nn.parameter import is_lazy

from trackside.monitor.guard import ask
from trackside.monitor.model.tree import ModelTree, held_by


@dataclass(slots=True)
class Counts:
    """Elements by place in the tree, children included."""

    parameters: list[int] = field(default_factory=list)
    trainable: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    holders: list[list[int]] = field(default_factory=list)
    """Places of the modules that hold the same parameter, one list a shared parameter."""
    shared: int = 0
    """Elements that more than one module holds."""
    lazy: int = 0
    """Parameters without a shape yet; they are in no count."""

    @property
    def watched(self) -> dict[str, int]:
        """Of the whole model, for the metadata."""
        total, trainable = self.parameters[0], self.trainable[0]
        return {"total": total, "trainable": trainable, "frozen": total - trainable}


def count(tree: ModelTree) -> Counts:
    """Count every module's elements."""
    size = len(tree.branches)
    counts = Counts(parameters=[0] * size, trainable=[0] * size, buffers=[0] * size)
    held: dict[int, tuple[Any, list[int]]] = {}
    for at, branch in enumerate(tree.branches):
        for _, value in held_by(branch.module, "_parameters"):
            if value is not None and is_lazy(value):
                counts.lazy += 1
            elif value is not None:
                places = held.setdefault(id(value), (value, []))[1]
                if not places or places[-1] != at:
                    places.append(at)
        counts.buffers[at] = sum(_elements(value) for _, value in held_by(branch.module, "_buffers"))
    parents = [branch.parent for branch in tree.branches]
    again: list[tuple[int, int, bool]] = []
    for value, places in held.values():
        elements, is_trained = _elements(value), bool(ask(lambda value=value: value.requires_grad, default=False))
        for at in places:
            counts.parameters[at] += elements
            counts.trainable[at] += elements if is_trained else 0
        if len(places) > 1:
            counts.shared += elements
            counts.holders.append(places)
            again += [(at, elements, is_trained) for at in _counted_again(parents, places)]
    _add_to_parents(counts, parents)
    for at, elements, is_trained in again:
        counts.parameters[at] -= elements
        counts.trainable[at] -= elements if is_trained else 0
    return counts


def _elements(tensor: Any) -> int:
    """Elements of a tensor, of a sharded one all of them; 0 where it has none yet."""
    if tensor is None or is_lazy(tensor):
        return 0
    return int(ask(tensor.numel, default=0))


def _add_to_parents(counts: Counts, parents: list[int | None]) -> None:
    for at in range(len(parents) - 1, 0, -1):
        parent = parents[at]
        if parent is not None:
            for column in (counts.parameters, counts.trainable, counts.buffers):
                column[parent] += column[at]


def _counted_again(parents: list[int | None], places: list[int]) -> list[int]:
    """Modules that have a shared parameter below them more than once, as often as it is too much."""
    met: set[int] = set()
    again: list[int] = []
    for place in places:
        at: int | None = place
        while at is not None:
            if at in met:
                again.append(at)
            met.add(at)
            at = parents[at]
    return again
