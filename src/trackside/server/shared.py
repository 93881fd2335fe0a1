"""Answers that take a while to make: made once for all who ask, beside the loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable

KEPT_RATIO = 3.0
"""How many times as long as it took an answer is kept, so that asking without end takes a quarter of one thread."""


class SharedAnswer:
    """One answer for everybody.

    Args:
        begin: takes down on the loop what the answer is made of, and returns what makes it in another thread.

    Threads: the event loop's only.
    """

    def __init__(self, begin: Callable[[], Awaitable[Callable[[], bytes]]]) -> None:
        self._begin = begin
        self._kept: tuple[float, bytes] | None = None
        self._making: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        """The answer as it is now, or was when it was made last. Blocks: never."""
        if self._kept is not None and time.monotonic() < self._kept[0]:
            return self._kept[1]
        if self._making is None:
            self._kept = None
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        began = time.monotonic()
        try:
            made = await asyncio.to_thread(await self._begin())
        finally:
            self._making = None
        now = time.monotonic()
        self._kept = (now + KEPT_RATIO * (now - began), made)
        return made
