"""A spool file: frames that neither the controller nor memory takes, kept on the rank's own disk."""

import os
from pathlib import Path

from trackside.wire.spool import LIVE_SUFFIX, SUFFIX, pack_spooled, private_path

MAX_BYTES = 2 * 1024 * 1024 * 1024
_HEAD_BYTES = 8


class Spool:
    """One bounded, append-only file of records as `wire.spool` reads them; a hello comes first.

    While its session lives it ends in `.part`; `leave` names it `.spool`, for whoever takes it in.

    Args:
        folder: Where it lies; it must exist.
        stem: Of the file name. The parts of one session sort in the order of their frames.
        hello: First frame.

    Raises: OSError, as every method does.
    Threads: one. Blocks: for the disk.
    """

    def __init__(self, folder: Path, stem: str, hello: bytes) -> None:
        self.path = folder / f"{stem}{LIVE_SUFFIX}"
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.size = 0
        self.append(hello)

    def append(self, frame: bytes) -> tuple[int, int] | None:
        """Write one frame; return what `read` needs, or None when the file is full."""
        record = pack_spooled(frame)
        if self.size + len(record) > MAX_BYTES:
            return None
        written = os.pwrite(self._file, record, self.size)
        if written != len(record):
            raise OSError(f"only {written} of {len(record)} bytes were written to {self.path}")
        at, self.size = self.size, self.size + len(record)
        return at, len(frame)

    def read(self, at: int, length: int) -> bytes:
        """One frame, checked. Raises: OSError also when it is damaged."""
        record = os.pread(self._file, _HEAD_BYTES + length, at)
        frame = record[_HEAD_BYTES:]
        if len(frame) != length or record[:_HEAD_BYTES] != pack_spooled(frame)[:_HEAD_BYTES]:
            raise OSError(f"{self.path} is damaged at byte {at}")
        return frame

    def leave(self) -> Path:
        """Close it and leave it for others; return where it lies."""
        os.close(self._file)
        final = self.path.with_suffix(SUFFIX)
        self.path.replace(final)
        return final

    def remove(self) -> None:
        """Close it and delete it."""
        os.close(self._file)
        self.path.unlink(missing_ok=True)


def private_folder() -> Path:
    """This user's own folder in the temporary one, where spools of a running session lie. Raises: OSError."""
    folder = private_path()
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not private to this user; remove it or set TMPDIR")
    return folder
