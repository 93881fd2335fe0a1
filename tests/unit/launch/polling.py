"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], deadline_s: float = 30.0) -> None:
    """Return when it holds; fail after the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
