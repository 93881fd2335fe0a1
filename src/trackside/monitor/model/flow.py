"""Which module a tensor came from, through whatever was done with it in between.

Two things are known for sure and cost little: the autograd graph, which is followed from a tensor back to the nodes that
are modules' outputs, and the storage that a tensor lies in, for as long as that storage lives. What neither tells, such as
a sum computed without gradients, is not known.
"""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from trackside.monitor.guard import ask
from trackside.monitor.model.tensors import grad_node

MOST_STEPS = 512
"""Autograd nodes looked at for one tensor."""
MOST_STEPS_IN_ALL = 200_000
NOWHERE: frozenset[int] = frozenset()


class Flow:
    """Outputs of one pass. It holds autograd nodes, so nobody keeps it longer than the pass."""

    def __init__(self, given: list[torch.Tensor]) -> None:
        """Begin with what the model itself was given: nothing before it is of interest."""
        self._owner: dict[Any, int] = {}
        self._storage: dict[int, tuple[StorageWeakRef, int]] = {}
        self._resolved: dict[Any, frozenset[int]] = {}
        self._left = MOST_STEPS_IN_ALL
        for tensor in given:
            node = grad_node(tensor)
            if node is not None:
                self._resolved[node] = NOWHERE

    def produce(self, tensor: torch.Tensor, place: int, *, is_leaf: bool) -> bool:
        """A module has given a tensor; return whether it is the module's own and not one of its children's.

        A module without children takes a tensor over that it hands on as it is, such as dropout in evaluation.
        """
        is_own = False
        node = grad_node(tensor)
        if node is not None and (is_leaf or node not in self._owner):
            is_own = True
            self._owner[node] = place
        key = ask(_key, tensor)
        if key is not None and (is_leaf or self._living(key) is None):
            is_own = is_own or node is None
            self._storage[key] = (StorageWeakRef(tensor.untyped_storage()), place)  # type: ignore[no-untyped-call]
        return is_own

    def sources(self, tensor: torch.Tensor) -> frozenset[int]:
        """Places of the modules whose outputs the tensor was made of; empty: not known, or none."""
        node = grad_node(tensor)
        if node is not None and node in self._owner:
            return frozenset((self._owner[node],))
        key = ask(_key, tensor)
        place = None if key is None else self._living(key)
        known = NOWHERE if place is None else frozenset((place,))
        # A function of the user's own, or a checkpoint, may have run modules inside it that autograd has not seen.
        if node is None or (known and isinstance(node, torch.autograd.function.BackwardCFunction)):
            return known
        return known | self._follow(node)

    def _living(self, key: int) -> int | None:
        """The module whose output lies in a storage; an address whose storage is gone may be anybody's."""
        known = self._storage.get(key)
        return known[1] if known is not None and not known[0].expired() else None  # type: ignore[no-untyped-call]

    def _follow(self, start: Any) -> frozenset[int]:
        if start in self._resolved:
            return self._resolved[start]
        found: set[int] = set()
        seen, stack, steps = {start}, [start], 0
        while stack and steps < MOST_STEPS and self._left > 0:
            steps += 1
            self._left -= 1
            for node, _ in stack.pop().next_functions:
                if node is None or node in seen:
                    continue
                seen.add(node)
                if node in self._owner:
                    found.add(self._owner[node])
                elif node in self._resolved:
                    found |= self._resolved[node]
                else:
                    stack.append(node)
        self._resolved[start] = frozenset(found)
        return self._resolved[start]


def _key(tensor: torch.Tensor) -> int:
    """Address of a tensor's storage. Raises: for tensors that have none."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - the key that `StorageWeakRef` itself goes by
