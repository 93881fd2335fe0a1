"""What was freed goes back to the machine."""

import contextlib
import ctypes
import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def _trim() -> Callable[[int], Any] | None:
    with contextlib.suppress(OSError, AttributeError):  # no C library of GNU's
        return ctypes.CDLL(None).malloc_trim
    return None


def give_back() -> None:
    """Let the allocator return pages that hold nothing, which glibc's arenas keep for good by themselves.

    For after large work: a segment leaves up to 40 MB of them. Blocks: some milliseconds, without the interpreter's lock.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
