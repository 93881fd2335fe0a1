"""Spool files: frames on their way, where they outlive this process."""

import os
from pathlib import Path

from trackside.wire.spool import (
    HEAD_BYTES,
    LIVE_SUFFIX,
    MEMORY,
    SUFFIX,
    hold,
    made_private,
    memory_path,
    pack_spooled,
    private_path,
)

MOST_SHARE_BYTES = 1024 * 1024
SHARE_OF_MEMORY = 256
"""A session takes no more than one part in so many of the machine's memory file system, …"""
ROOM_OF_MEMORY = 16
"""… and only while so many times that is free: others live there too, such as the loaders' workers."""


class Spool:
    """One append-only file of records as `wire.spool` reads them; a hello comes first.

    While its session lives it ends in `.part`; `leave` names it `.spool`, for whoever takes it in.

    Args:
        folder: Where it lies; it must exist.
        stem: Of the file name. The files of one session sort in the order of their frames.
        hello: First frame.

    Raises: OSError, as every method does.
    Threads: one. Blocks: for the disk.
    """

    def __init__(self, folder: Path, stem: str, hello: bytes) -> None:
        self.path = folder / f"{stem}{LIVE_SUFFIX}"
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        hold(self._file)
        self.size = self._hello_bytes = 0
        self.waiting = 0
        """Frames of it that are still wanted."""
        self._write(pack_spooled(hello))
        self._hello_bytes = self.size

    def append(self, frame: bytes) -> int:
        """Write one frame; return where `read` finds it."""
        return self._write(pack_spooled(frame))

    def _write(self, record: bytes) -> int:
        written = os.pwrite(self._file, record, self.size)
        if written != len(record):
            os.ftruncate(self._file, self.size)
            raise OSError(f"only {written} of {len(record)} bytes were written to {self.path}")
        at, self.size = self.size, self.size + len(record)
        return at

    def read(self, at: int, length: int) -> bytes:
        """One frame, checked. Raises: OSError also when it is damaged."""
        record = os.pread(self._file, HEAD_BYTES + length, at)
        frame = record[HEAD_BYTES:]
        if len(frame) != length or record[:HEAD_BYTES] != pack_spooled(frame)[:HEAD_BYTES]:
            raise OSError(f"{self.path} is damaged at byte {at}")
        return frame

    def clear(self) -> None:
        """Keep the hello only."""
        self.size = self._hello_bytes
        os.ftruncate(self._file, self.size)

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
    """This user's own folder in the temporary one. Raises: OSError."""
    return made_private(private_path())


def memory_folder() -> Path | None:
    """This user's own folder in the machine's memory file system; None where there is none. Raises: OSError."""
    return made_private(memory_path()) if memory_share() else None


def memory_share() -> int:
    """Bytes of the memory file system that one session may take now; 0 for none."""
    try:
        if not MEMORY.is_mount():
            return 0
        found = os.statvfs(MEMORY)
    except OSError:
        return 0
    share = min(MOST_SHARE_BYTES, found.f_blocks * found.f_frsize // SHARE_OF_MEMORY)
    return share if found.f_bavail * found.f_frsize >= share * ROOM_OF_MEMORY else 0
