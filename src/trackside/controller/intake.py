"""Takes in what sessions could not deliver: files they left, and what those that were killed had on their way."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from trackside.errors import StoreError, TracksideError
from trackside.ingest.reader import FrameReader
from trackside.store import DiskThreads, RunFolder
from trackside.wire.estate import Estate, find_estates, frames_of, remove

log = logging.getLogger("trackside.controller")

PIECE_FRAMES = 500
"""Frames read from the disk at a time."""
ROOM_S = 30.0
"""How long it waits for room; where there is none, what was left stays where it is."""
LOOK_S = 0.05


class Intake:
    """Takes in what sessions of one run left, and removes it once it is on the controller's disk.

    Args:
        folder: Of the run.
        run: Its id.
        elsewhere: More folders to look in than the run's, and this user's on this machine.
        starters: Processes of this machine that started the run's controllers.
        reader: Reads the frames as if they had come over the link; those that did are known and left out.
        apply: Takes the reader's inputs.
        disk: Reads the files.

    Threads: the event loop's only.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: str,
        elsewhere: Sequence[Path],
        *,
        starters: Sequence[int] = (),
        reader: FrameReader,
        apply: Callable[[], None],
        disk: DiskThreads,
    ) -> None:
        self._folder, self._run, self._elsewhere, self._starters = folder, run, elsewhere, starters
        self._reader, self._apply, self._disk = reader, apply, disk
        self._taken: dict[bytes, Estate] = {}
        self._turn = asyncio.Lock()
        """Nobody reads what another is reading."""

    async def take_in(self, of: Iterable[bytes] | None = None) -> list[bytes]:
        """Look and read; where the disk does not answer it stays there. `of`: sessions; None: all.

        Returns: the sessions that had left something.
        """
        async with self._turn:
            return await self._take_in(of)

    async def _take_in(self, of: Iterable[bytes] | None) -> list[bytes]:
        found = []
        try:
            estates = await self._disk.ask(lambda: self._look(of))
        except (OSError, TracksideError) as error:
            log.warning("whether ranks left anything for %s is not known: %s", self._folder.path, error)
            return []
        for estate in estates:
            try:
                await self._read(estate)
            except (OSError, TracksideError) as error:
                log.warning("what %s left in %s was not taken in: %s", estate.hello.host.host, estate.paths, error)
                continue
            self._taken[estate.hello.session] = estate
            found.append(estate.hello.session)
        return found

    def _look(self, of: Iterable[bytes] | None) -> list[Estate]:
        """What is there; who was killed has nothing in the run folder."""
        spool = self._folder.spool if of is None else None
        return find_estates(self._run, spool, self._elsewhere, of=of, starters=self._starters)

    async def _read(self, estate: Estate) -> None:
        frames = frames_of(estate)
        while piece := await self._disk.ask(lambda: list(islice(frames, PIECE_FRAMES))):
            for frame in piece:
                if not self._reader.has_room:
                    self._apply()
                    await self._wait_for_room()
                self._reader.feed(estate.hello.session, frame, time.time(), is_left=True)
            self._apply()

    async def _wait_for_room(self) -> None:
        deadline = time.monotonic() + ROOM_S
        while not self._reader.has_room:
            if time.monotonic() > deadline:
                raise StoreError("the run folder does not take what comes")
            await asyncio.sleep(LOOK_S)

    def remove_durable(self, durable: Mapping[bytes, int]) -> None:
        """Remove the files of sessions that are on the disk as far as they were read, unless a slow disk may hold them."""
        for session, estate in list(self._taken.items()):
            is_slow = any(path.is_relative_to(self._folder.path) for path in estate.paths)
            if not is_slow and durable.get(session, 0) >= self._reader.highest_seq(session):
                remove(self._taken.pop(session))

    async def remove_all(self, write_seal: Callable[[], None]) -> None:
        """Everything that was read is on the disk; `write_seal` first writes down how far that was."""
        estates, self._taken = list(self._taken.values()), {}
        try:
            await self._disk.ask(write_seal)
            await self._disk.ask(lambda: self._remove_all(estates))
        except (OSError, TracksideError) as error:
            log.warning("what was taken in could not be removed from %s: %s", self._folder.spool, error)

    def _remove_all(self, estates: list[Estate]) -> None:
        for estate in estates:
            remove(estate)
        if self._folder.spool.is_dir() and not any(self._folder.spool.iterdir()):
            self._folder.spool.rmdir()
