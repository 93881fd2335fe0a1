"""The modules of a model in their order, wrappers looked through."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from trackside.monitor.guard import ask

COMPILED = "OptimizedModule"
WRAPPED_AS = {
    COMPILED: "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
    "DeepSpeedEngine": "module",
    "_FabricModule": "_forward_module",
}
"""Classes that stand for another module, and the child that they stand for."""
SHARDED = "FSDPModule"
FUSED = (nn.TransformerEncoderLayer,)
"""Classes that take another path through their arithmetic when a hook hangs on them and no gradient is wanted."""
_MOST_WRAPPERS = 8


@dataclass(slots=True)
class Branch:
    """One module and its place."""

    name: str
    """As in `named_modules()`, without the names of wrappers."""
    module: nn.Module
    hooked: nn.Module | None
    """What hooks may hang on; None where they would be compiled in and not run."""
    parent: int | None


@dataclass(slots=True)
class ModelTree:
    """Parents come before their children; the first is the model itself. It holds the modules, so nobody keeps it."""

    branches: list[Branch] = field(default_factory=list)
    aliases: list[tuple[str, int]] = field(default_factory=list)
    """Names under which a module stands once more, and its place."""
    has_fused: bool = False
    has_compiled: bool = False

    @property
    def root(self) -> nn.Module:
        """The user's own module."""
        return self.branches[0].module


def walk(model: nn.Module) -> ModelTree:
    """Look at every module once, in order. Wrappers (DDP, FSDP, `torch.compile`, checkpointing) are looked through."""
    tree, seen = ModelTree(), dict[int, int]()
    stack: list[tuple[str, nn.Module, int | None, bool]] = [("", model, None, False)]
    while stack:
        name, outer, parent, is_sealed = stack.pop()
        inner, hooked, is_compiled = look_through(outer)
        if id(inner) in seen:
            tree.aliases.append((name, seen[id(inner)]))
            continue
        at = seen[id(inner)] = len(tree.branches)
        tree.branches.append(Branch(name, inner, None if is_sealed else hooked, parent))
        tree.has_compiled = tree.has_compiled or is_compiled
        tree.has_fused = tree.has_fused or isinstance(inner, FUSED)
        prefix = f"{name}." if name else ""
        children = [
            (prefix + key, child, at, is_sealed or is_compiled)
            for key, child in held_by(inner, "_modules")
            if isinstance(child, nn.Module)
        ]
        stack += reversed(children)
    return tree


def look_through(outer: nn.Module) -> tuple[nn.Module, nn.Module | None, bool]:
    """The user's own module inside a wrapper, what hooks may hang on, and whether its inside is compiled.

    A compiled module is hooked from outside, where hooks run and are not compiled in.
    """
    inner, shell = outer, None
    for _ in range(_MOST_WRAPPERS):
        kind = next((base.__name__ for base in type(inner).__mro__ if base.__name__ in WRAPPED_AS), None)
        child = dict(held_by(inner, "_modules")).get(WRAPPED_AS[kind]) if kind else None
        if not isinstance(child, nn.Module):
            break
        shell = inner if kind == COMPILED and shell is None else shell
        inner = child
    if shell is not None:
        return inner, shell, True
    if vars(inner).get("_compiled_call_impl") is not None:
        return inner, None, True
    return inner, inner, False


def held_by(module: nn.Module, slot: str) -> list[tuple[str, Any]]:
    """Name and value of a module's own `_modules`, `_parameters` or `_buffers`; a class may answer attributes as it likes."""
    held: Any = vars(module).get(slot)
    pairs: Iterable[tuple[str, Any]] = ask(lambda: list(held.items()), default=()) if held is not None else ()
    return [(str(key), value) for key, value in pairs]


def kind_of(module: nn.Module) -> type:
    """A module's class as the user wrote it; `fully_shard` puts one of its own before."""
    kinds = type(module).__mro__
    return kinds[2] if len(kinds) > 2 and kinds[1].__name__ == SHARDED else kinds[0]
