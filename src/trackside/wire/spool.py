"""The spool: what a sender has not delivered yet, in files that outlive it, to be taken in later.

A file of records (length, CRC-32, frame). The first frame is the session's hello, so that whoever takes it in knows
whose it is; every frame carries its own sequence, so that nothing is taken twice.
"""

import contextlib
import fcntl
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_HEAD = struct.Struct("<II")
HEAD_BYTES = _HEAD.size
SUFFIX = ".spool"
LIVE_SUFFIX = ".part"
"""Of a file whose session still writes it, or was killed."""
RING_SUFFIX = ".ring"
"""Of the calls that are in no frame yet (`wire.ring`)."""
ADDRESS_SUFFIX = ".address"
"""Of a controller's address, left by the rank that started it for the others of its job."""
MEMORY = Path("/dev/shm")
"""The machine's file system in memory, where there is one."""
LASTING = Path("/var/tmp")
"""What lies here outlives a job and a restart of the machine; `$TMPDIR` may be one job's own, or in memory."""


def stem_of(session: bytes) -> str:
    """How the names of a session's files begin."""
    return f"trackside-{session.hex()}"


def memory_path() -> Path:
    """This user's own folder in memory, where a running session has what it must not take with it; may not be there."""
    return MEMORY / f"trackside-{os.getuid()}"


def private_path() -> Path:
    """This user's own folder in the temporary one, for what memory does not hold; it may not be there."""
    return temporary_folder() / f"trackside-{os.getuid()}"


def temporary_folder() -> Path:
    """The system's folder for temporary files, or the one that `TMPDIR` names. Raises: OSError: there is none."""
    try:
        import tempfile  # loads OpenSSL, for random names
    except ImportError as error:
        raise OSError(f"no temporary folder: {error}") from error
    return Path(tempfile.gettempdir())


def lasting_path() -> Path:
    """This user's own folder for what was swept from memory and has no better place; it may not be there."""
    return LASTING / f"trackside-{os.getuid()}"


def is_private(folder: Path) -> bool:
    """Whether it is a folder, no link to one, of this user and nobody else's business."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def made_private(folder: Path) -> Path:
    """Make such a folder where there is none. Raises: OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        raise PermissionError(f"{folder} is not private to this user; remove it or set TMPDIR")
    return folder


def hold(file: int) -> None:
    """Until the last process that has this file open or mapped has gone, nobody can `seize` it. Raises: never."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def seize(file: int) -> bool:
    """Have an open file alone; False while a process holds it. It is let go when it is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def pack_spooled(frame: bytes) -> bytes:
    """One frame as a record."""
    return _HEAD.pack(len(frame), zlib.crc32(frame)) + frame


def read_spool(path: Path) -> Iterator[bytes]:
    """Frames of a spool file, oldest first, up to the first damage. Blocks: for the disk. Raises: OSError."""
    with open_kept(path) as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            frame = file.read(length)
            if len(frame) != length or zlib.crc32(frame) != checksum:
                return
            yield frame


def open_kept(path: Path) -> BinaryIO:
    """Open what a session has left; a link in its place is not followed. Raises: OSError."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
