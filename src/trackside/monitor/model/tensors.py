"""Tensors in whatever a module takes and gives: nested, named, packed."""

import dataclasses
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import torch

from trackside.monitor.guard import ask
from trackside.wire.documents import TensorSpec

MOST_TENSORS = 64
MOST_SPECS = 8
_MOST_VALUES = 1_000
_MOST_DEPTH = 8
_grad_fn = attrgetter("grad_fn")


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors in nested dicts, lists, tuples and dataclasses, in order, each once, at most 64."""
    first = values[0]
    if len(values) == 2 and not values[1] and type(first) is tuple and len(first) == 1:
        first = first[0]
    if isinstance(first, torch.Tensor) and (len(values) == 1 or not values[1]):
        return [first]  # what nearly every module takes and gives
    found: dict[int, torch.Tensor] = {}
    for value in _leaves(values):
        if isinstance(value, torch.Tensor):
            found.setdefault(id(value), value)
            if len(found) == MOST_TENSORS:
                break
    return list(found.values())


def _leaves(values: tuple[Any, ...]) -> Iterator[Any]:
    """Everything in a value, depth first; a bounded number of things."""
    stack = [(value, 0) for value in reversed(values)]
    for _ in range(_MOST_VALUES):
        if not stack:
            return
        value, depth = stack.pop()
        if isinstance(value, torch.Tensor) or depth > _MOST_DEPTH:
            yield value
        else:
            stack += [(each, depth + 1) for each in reversed(_parts(value))]


def _parts(value: Any) -> list[Any]:
    if value is None or isinstance(value, (str, bytes, int, float)):
        return []
    if isinstance(value, (list, tuple)):
        return list(value[:_MOST_VALUES])
    if isinstance(value, Mapping):
        return list(ask(lambda: list(value.values())[:_MOST_VALUES], default=[]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return list(vars(value).values()) if hasattr(value, "__dict__") else []
    return []


def grad_node(tensor: torch.Tensor) -> Any:
    """The autograd node that has made a tensor; None: no gradient is wanted, or it cannot be asked."""
    return ask(_grad_fn, tensor)


def spec_of(tensor: torch.Tensor) -> TensorSpec | None:
    """Shape and dtype; None for one that has no single shape."""
    shape = ask(lambda: [int(size) for size in tensor.shape])
    return None if shape is None else TensorSpec(shape=shape, dtype=str(tensor.dtype).removeprefix("torch."))


def specs_of(tensors: list[torch.Tensor]) -> list[TensorSpec]:
    """Of the first few."""
    return [spec for spec in map(spec_of, tensors[:MOST_SPECS]) if spec is not None]
