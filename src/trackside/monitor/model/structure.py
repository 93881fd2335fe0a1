"""The structural hash: equal on every rank and run of one architecture, different when a layer is."""

import hashlib
import re
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from trackside.monitor.guard import ask
from trackside.monitor.model.tree import ModelTree, held_by, kind_of

NOT_STRUCTURE = frozenset(
    ("rank", "ranks", "device", "devices", "gpu", "cuda", "seed", "world", "step", "steps", "epoch", "epochs")
    + ("iter", "iteration", "iterations", "count", "counter", "loss", "time", "training")
)
"""Words in the names of attributes that say where or how far a model is, not how it is built."""
NO_TEXT = frozenset(("path", "dir", "directory", "file", "host", "url", "root", "cache"))
"""The same for attributes that are text."""
_MOST_TEXT = 4_000
_MOST_ITEMS = 64
_PASSING = re.compile(r" at 0x[0-9a-fA-F]+|\bdevice=[^,)\s]+")
_NAMED = (types.FunctionType, types.BuiltinFunctionType, type)


def structural_hash(tree: ModelTree) -> str | None:
    """SHA-256 over every module's name, class, hyper-parameters, parameter and buffer shapes and ties, in order.

    Left out is what does not change the architecture: values, dtype, device, training mode, what is frozen, wrappers.

    Returns:
        None while a lazy module has not seen its first input.
    """
    digest = hashlib.sha256()
    tied: dict[int, str] = {}
    for branch in tree.branches:
        module = branch.module
        digest.update(f"{branch.name}:{_class_name(module)}({_shown(module)})\n".encode("utf-8", "replace"))
        for line in _settings(module):
            digest.update(line.encode("utf-8", "replace"))
        for key, value in _tensors(module):
            if value is not None and is_lazy(value):
                return None
            name = f"{branch.name}.{key}"
            first = tied.setdefault(id(value), name)
            shape = "" if value is None else tuple(ask(lambda value=value: value.shape, default=()))
            digest.update(f"  {key}:{shape}{'' if first == name or value is None else '=' + first}\n".encode())
    for name, at in tree.aliases:
        digest.update(f"{name}={tree.branches[at].name}\n".encode("utf-8", "replace"))
    return digest.hexdigest()


def _class_name(module: nn.Module) -> str:
    kind = kind_of(module)
    home = "torch." if kind.__module__.partition(".")[0] == "torch" else ""
    return home + kind.__qualname__


def _shown(module: nn.Module) -> str:
    """What a module says of itself, without addresses and devices."""
    text = ask(module.extra_repr, default="")
    return _PASSING.sub("", text)[:_MOST_TEXT] if isinstance(text, str) else ""


def _tensors(module: nn.Module) -> Iterator[tuple[str, Any]]:
    yield from held_by(module, "_parameters")
    passing = vars(module).get("_non_persistent_buffers_set", ())
    yield from ((key, value) for key, value in held_by(module, "_buffers") if key not in passing)


def _settings(module: nn.Module) -> Iterator[str]:
    """Plain attributes, which is where a layer keeps the number of its heads."""
    for key, value in sorted(vars(module).items()):
        words = key.lower().split("_")
        if key.startswith("_") or not NOT_STRUCTURE.isdisjoint(words):
            continue
        if isinstance(value, str) and not NO_TEXT.isdisjoint(words):
            continue
        text = _plain(value)
        if text is not None:
            yield f"  {key}={text[:_MOST_TEXT]}\n"


def _plain(value: Any) -> str | None:
    """Text of a value that can only be a setting; None for anything else."""
    if value is None or type(value) in (bool, int, float, str, complex, torch.dtype):
        return repr(value)
    if isinstance(value, _NAMED):
        return f"{value.__module__}.{value.__qualname__}"
    if type(value) in (tuple, list, torch.Size) and len(value) <= _MOST_ITEMS:
        parts = [_plain(each) for each in value]
        return None if None in parts else f"({','.join(part for part in parts if part is not None)})"
    return None
