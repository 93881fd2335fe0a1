"""Takes in what ranks could not deliver and left on the disk."""

import logging
from collections.abc import Callable
from pathlib import Path

from trackside.errors import TracksideError
from trackside.ingest.reader import FrameReader
from trackside.wire import codec
from trackside.wire.messages import Hello
from trackside.wire.spool import SUFFIX, read_spool

log = logging.getLogger("trackside.controller")


def take_in_spools(folder: Path, reader: FrameReader, wall: float, apply: Callable[[], None]) -> list[Path]:
    """Read every spool file of the run; frames that arrived otherwise are known and left out.

    Args:
        folder: `spool` of the run folder.
        reader: reads the frames as if they had come over the link.
        wall: UTC epoch seconds now.
        apply: takes the reader's inputs; called after each file.

    Returns:
        The files that were read; they may go once their frames are on the disk.
    """
    if not folder.is_dir():
        return []
    taken = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            _take_in(path, reader, wall)
        except (OSError, TracksideError) as error:
            log.warning("the spool file %s was not taken in: %s", path, error)
            continue
        apply()
        taken.append(path)
    return taken


def _take_in(path: Path, reader: FrameReader, wall: float) -> None:
    session: bytes | None = None
    for frame in read_spool(path):
        if session is None:
            hello = codec.decode_body(codec.open_envelope(frame))
            if not isinstance(hello, Hello):
                log.warning("the spool file %s does not begin with a hello", path)
                return
            session = hello.session
        reader.feed(session, frame, wall)
