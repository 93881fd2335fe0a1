"""What was freed goes back to the machine."""

import contextlib
import ctypes
import functools
from collections.abc import Callable
from typing import Any

LARGE_BYTES = 256 * 1024
"""Blocks from this size on are mapped by themselves."""
_M_MMAP_THRESHOLD = -3


@functools.cache
def _find(name: str) -> Callable[..., Any] | None:
    with contextlib.suppress(OSError, AttributeError):  # no C library of GNU's
        return getattr(ctypes.CDLL(None), name)  # type: ignore[no-any-return]
    return None


def map_large_blocks() -> None:
    """Give every large block pages of its own, which go back to the machine when it is freed. For a process that is ours.

    By itself glibc takes larger and larger blocks from its arenas, once one of their size was freed. Batches of points and
    columns of segments then lie between small things that stay, and what they leave can hardly be used again: of a
    controller with 1,024 ranks that was a third of its memory, and it grew.
    """
    option = _find("mallopt")
    if option is not None:
        option(_M_MMAP_THRESHOLD, LARGE_BYTES)


def give_back() -> None:
    """Let the allocator return pages that hold nothing, which glibc's arenas keep for good by themselves.

    For after large work: a segment leaves up to 40 MB of them. Blocks: some milliseconds, without the interpreter's lock.
    """
    trim = _find("malloc_trim")
    if trim is not None:
        trim(0)
