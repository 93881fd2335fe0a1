"""Sweeps what killed sessions left in this machine's memory, whoever's run it was, and says so; and the run's own address."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from trackside.errors import TracksideError
from trackside.store import DiskThreads
from trackside.wire.address import parse_address
from trackside.wire.spool import ADDRESS_SUFFIX, is_private, private_path
from trackside.wire.sweep import Moved, sweep

log = logging.getLogger("trackside.controller")

EVERY_S = 600.0
LIMIT_S = 120.0
"""How long run folders may take; a mount may hang for good, and then nothing more is swept."""


class Broom:
    """One sweep at the beginning, and one every ten minutes.

    Args:
        run: Id of the controller's own.
        can_say: Whether there is a terminal to say it on by now.
        say: Says a line there.

    Threads: the event loop's; the sweep itself has its own, for nobody may wait for it.
    """

    def __init__(self, run: str, can_say: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._run, self._can_say, self._say = run, can_say, say
        self._unsaid: list[Moved] = []
        self._disk = DiskThreads("trackside-sweep", limit_s=LIMIT_S)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                self._unsaid += await self._disk.ask(sweep)
            except TracksideError as error:
                log.warning("what killed processes left in memory is not swept: %s", error)
                return
            except Exception:  # noqa: BLE001 - top of task
                log.exception("what killed processes left in memory is not swept")
                return
            await asyncio.sleep(EVERY_S)

    def tell(self) -> None:
        """Say what was moved, as soon as somebody is there to read it."""
        if self._unsaid and self._can_say():
            moved, self._unsaid = self._unsaid, []
            for each in moved:
                self._say(f"  left       {each}")

    def close(self) -> None:
        """Let the thread end, and remove what leads to this run. Idempotent. Blocks: for a moment."""
        self._disk.close()
        self._remove_addresses()

    def _remove_addresses(self) -> None:
        """A rank that a signal ended could not do it, and each holds the key to the link."""
        folder = private_path()
        if not is_private(folder):
            return
        for path in folder.glob(f"*{ADDRESS_SUFFIX}"):
            with contextlib.suppress(OSError, UnicodeDecodeError, TracksideError):
                if parse_address(path.read_text("ascii")).run == self._run:
                    path.unlink()
