"""What `watch` learns of a model without running it: label, structural hash, parameter counts."""

import hashlib
from typing import Any


def describe_model(model: Any) -> tuple[str, str, dict[str, int]]:
    """Label, hash and counts of a `torch.nn.Module`.

    The hash is over module names, types and parameter shapes in order: equal on every rank and run of one
    architecture, different when a layer is. Wrappers (DDP, `torch.compile`) are looked through.

    Raises:
        TypeError: not a module.
    """
    inner = unwrap(model)
    if not hasattr(inner, "named_modules") or not hasattr(inner, "parameters"):
        raise TypeError(f"watch() takes a torch.nn.Module, not {type(model).__name__}")
    digest = hashlib.sha256()
    for name, module in inner.named_modules():
        digest.update(f"{name}:{type(module).__qualname__}\n".encode())
        for key, parameter in module.named_parameters(recurse=False):
            digest.update(f"  {key}:{tuple(parameter.shape)}:{parameter.dtype}\n".encode())
    total = trainable = 0
    for parameter in inner.parameters():
        count = int(parameter.numel())
        total += count
        trainable += count if parameter.requires_grad else 0
    return (
        type(inner).__name__,
        digest.hexdigest(),
        {"total": total, "trainable": trainable, "frozen": total - trainable},
    )


def unwrap(model: Any) -> Any:
    """The user's own module inside DDP and `torch.compile`."""
    for _ in range(8):
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            inner = getattr(model, "module", None)
        if inner is None:
            return model
        model = inner
    return model
