"""Takes in what ranks could not deliver and left on the disk."""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from trackside.controller.watch import is_running
from trackside.errors import TracksideError
from trackside.ingest.reader import FrameReader
from trackside.store import DiskThreads, RunFolder
from trackside.wire import codec
from trackside.wire.machine import machine_id
from trackside.wire.messages import Hello
from trackside.wire.spool import LIVE_SUFFIX, SUFFIX, private_path, read_spool

log = logging.getLogger("trackside.controller")

PIECE_FRAMES = 500
"""Frames read from the disk at a time."""


def find_spools(folder: RunFolder, run: str, elsewhere: Sequence[Path] = ()) -> list[Path]:
    """Spool files of a run that nobody writes any more, those of one session in the order to take them in.

    They lie in the run folder, where a rank leaves them at its end, or in the temporary folder of this user on this machine,
    where a rank that was killed has them.

    Args:
        folder: Of the run.
        run: Its id.
        elsewhere: More folders to look in. Blocks: for the disks.
    """
    found = []
    for place in (folder.spool, private_path(), *elsewhere):
        for path in sorted([*place.glob(f"*{SUFFIX}"), *place.glob(f"*{LIVE_SUFFIX}")]):
            hello = _read_hello(path)
            if hello is None or _is_being_written(path, hello):
                continue
            if hello.run == run or place == folder.spool:
                found.append(path)
    return found


async def take_in_spools(
    paths: Sequence[Path], reader: FrameReader, wall: float, apply: Callable[[], None], disk: DiskThreads
) -> list[Path]:
    """Read spool files; frames that arrived otherwise are known and left out.

    Args:
        paths: As `find_spools` returned them.
        reader: Reads the frames as if they had come over the link.
        wall: UTC epoch seconds now.
        apply: Takes the reader's inputs; called after each piece.
        disk: Reads the files.

    Returns:
        The files that were read; they may go once their frames are on the disk.
    """
    taken = []
    for path in paths:
        frames = _frames(path)
        try:
            while piece := await disk.ask(lambda frames=frames: list(islice(frames, PIECE_FRAMES))):  # type: ignore[misc]
                for session, frame in piece:
                    reader.feed(session, frame, wall)
                apply()
        except (OSError, TracksideError) as error:
            log.warning("the spool file %s was not taken in: %s", path, error)
            continue
        taken.append(path)
    return taken


def _frames(path: Path) -> Iterator[tuple[bytes, bytes]]:
    hello = _read_hello(path)
    if hello is not None:
        for frame in read_spool(path):
            yield hello.session, frame


def _read_hello(path: Path) -> Hello | None:
    """The first frame; None where there is none, which is said."""
    try:
        for frame in read_spool(path):
            hello = codec.decode_body(codec.open_envelope(frame))
            if isinstance(hello, Hello):
                return hello
            break
    except (OSError, TracksideError) as error:
        log.warning("the spool file %s cannot be read: %s", path, error)
        return None
    log.warning("the spool file %s does not begin with a hello", path)
    return None


def _is_being_written(path: Path, hello: Hello) -> bool:
    if path.suffix != LIVE_SUFFIX:
        return False
    return hello.host.machine_id != machine_id() or is_running(hello.process.pid)
