"""The spool: frames a sender could not deliver, on its own disk, to be taken in later.

A file of records (length, CRC-32, frame). The first frame is the session's hello, so that whoever takes it in knows
whose it is; every frame carries its own sequence, so that nothing is taken twice.
"""

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

_HEAD = struct.Struct("<II")
SUFFIX = ".spool"
LIVE_SUFFIX = ".part"
"""Of a file whose session still writes it, or was killed."""


def private_path() -> Path:
    """This user's own folder in the temporary one, where spools of a running session lie; it may not be there."""
    return Path(tempfile.gettempdir()) / f"trackside-{os.getuid()}"


def pack_spooled(frame: bytes) -> bytes:
    """One frame as a record."""
    return _HEAD.pack(len(frame), zlib.crc32(frame)) + frame


def read_spool(path: Path) -> Iterator[bytes]:
    """Frames of a spool file, oldest first, up to the first damage. Blocks: for the disk."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            frame = file.read(length)
            if len(frame) != length or zlib.crc32(frame) != checksum:
                return
            yield frame
