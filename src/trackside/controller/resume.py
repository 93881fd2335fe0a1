"""A checkpoint, and the way back from it and the journal after a crash."""

import asyncio
import logging
import math
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from itertools import islice
from typing import Any, TypeVar

import msgspec

from trackside.controller.identity import ControllerIdentity, without_secrets
from trackside.errors import DiskSilentError, RunFolderError
from trackside.ingest.reader import FrameReader, TableSnapshot
from trackside.run.inputs import FrameRefused, Input, Moment
from trackside.run.machine import RunMachine
from trackside.store import Damage, DiskThreads, Frame, Resumption, RunFolder
from trackside.wire.ids import SESSION_BYTES

log = logging.getLogger("trackside.controller")

T = TypeVar("T")

BATCH_FRAMES = 500
"""Read ahead at a time."""
LEAVE_S = 5.0
"""How long a disk that does not answer is waited for when the end is asked for."""
REPLAY_FRAMES = 2000
REPLAY_S = 0.25
"""Frames that arrived within this time are applied together, as they would have been."""


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything in memory that the journal's later frames build on."""

    machine: bytes
    table: TableSnapshot


def write_checkpoint(machine: RunMachine, reader: FrameReader) -> bytes:
    """The state as of now; every frame that was read must have been applied."""
    return msgspec.msgpack.encode(Checkpoint(machine.snapshot(), reader.snapshot()))


def read_checkpoint(data: bytes) -> tuple[RunMachine, TableSnapshot]:
    """What `write_checkpoint` wrote. Raises: msgspec.DecodeError."""
    checkpoint = msgspec.msgpack.decode(data, type=Checkpoint)
    return RunMachine.restore(checkpoint.machine), checkpoint.table


def write_seal(folder: RunFolder, seal: bytes) -> None:
    """Keep what an ended run needs to take in what comes to light later. Blocks: for the disk. Raises: OSError."""
    folder.write_whole(folder.seal, seal, private=True)


def pack_seal(identity: ControllerIdentity, checkpoint: bytes) -> bytes:
    """A run at its end, without its secrets."""
    return zlib.compress(msgspec.msgpack.encode(Seal(without_secrets(identity), checkpoint)), 1)


def read_seal(folder: RunFolder) -> "Seal | None":
    """What `write_seal` kept; None for a run that has not ended, or ended before there were seals.

    Raises:
        RunFolderError: damaged, or of another version.
    """
    try:
        return msgspec.msgpack.decode(zlib.decompress(folder.seal.read_bytes()), type=Seal)
    except FileNotFoundError:
        return None
    except (OSError, zlib.error, msgspec.DecodeError) as error:
        raise RunFolderError(f"{folder.seal} cannot be read: {error}") from error


class Seal(msgspec.Struct, frozen=True):
    """Who a run was, and all that was known at its end."""

    identity: ControllerIdentity
    checkpoint: bytes


class Replay(msgspec.Struct, frozen=True):
    """What a replay found."""

    frames: int
    damaged: int
    """Places that cannot be read; what a crash tore off at the end is none."""
    last_arrival: float | None


async def replay(
    entries: AsyncIterator[Frame | Damage], reader: FrameReader, apply: Callable[[Moment], None], now: Moment
) -> Replay:
    """Feed the journal's frames through ingest, as they once came.

    Args:
        entries: of the journal, oldest first.
        reader: restored from the checkpoint already.
        apply: takes the reader's inputs at the moment they arrived.
        now: the present; monotonic times of the past are counted back from it.

    Takes about a second for every million values. Raises: what `entries` raises.
    """
    frames = damaged = 0
    batch_from = last = None
    async for entry in entries:
        if not isinstance(entry, Frame):
            damaged += not entry.is_torn_tail
            log.warning("journal damaged: %s", entry)
            continue
        if batch_from is not None and (entry.arrival - batch_from > REPLAY_S or frames % REPLAY_FRAMES == 0):
            apply(_moment(batch_from, now))
            batch_from = None
        batch_from = entry.arrival if batch_from is None else batch_from
        reader.feed(entry.session[:SESSION_BYTES], entry.data, entry.arrival, replaying=True)
        frames, last = frames + 1, entry.arrival
    if last is not None:
        apply(_moment(last, now))
    reader.replayed()
    return Replay(frames, damaged, last)


async def read_ahead(resumption: Resumption, asked_to_end: asyncio.Event) -> AsyncGenerator[Frame | Damage]:
    """A journal's frames, read where nobody else waits for the disk.

    Raises:
        DiskSilentError: The end was asked for, and the disk still does not answer.
    """
    disk = DiskThreads("trackside-journal", limit_s=math.inf)
    entries = resumption.frames()
    try:
        while batch := await _until_asked(disk.ask(lambda: list(islice(entries, BATCH_FRAMES))), asked_to_end):
            for entry in batch:
                yield entry
    finally:
        disk.close()


async def _until_asked(answer: Coroutine[Any, Any, T], asked_to_end: asyncio.Event) -> T:
    """The disk's answer, however long it takes, until somebody wants to leave; then it has a few seconds more."""
    reading = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(asked_to_end.wait())
    try:
        await asyncio.wait([reading, leaving], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([reading], timeout=LEAVE_S)
        if not reading.done():
            raise DiskSilentError(
                f"the disk of the run folder has not answered for {LEAVE_S:.0f} s, and the end was asked for; the run is left "
                "as it was, and goes on where it is resumed or recovered"
            )
        return reading.result()
    finally:
        reading.cancel()
        leaving.cancel()


def damage_found(replay: Replay) -> list[Input]:
    """What the run must admit of its journal."""
    if not replay.damaged:
        return []
    places = "one place" if replay.damaged == 1 else f"{replay.damaged} places"
    text = f"the journal cannot be read at {places}; what lay there is lost, unless its rank sends it again"
    return [FrameRefused("journal damaged", text)]


def _moment(arrival: float, now: Moment) -> Moment:
    return Moment(arrival, now.mono - max(0.0, now.wall - arrival))


def present() -> Moment:
    """This moment by the machine's clocks."""
    return Moment(time.time(), time.monotonic())
