"""The journal: frames as they came, each with its length and checksum, only ever appended to."""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAGIC = b"TSJ1"
_HEAD = struct.Struct("<4sBII")
"""Magic, record type, payload bytes, CRC-32 of type and payload."""
_FRAME = struct.Struct("<16sd")
"""Session, arrival (UTC epoch seconds)."""

CHECKPOINT = 1
FRAME = 2
MAX_RECORD_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came."""

    session: bytes
    arrival: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state before everything that follows."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Where reading had to stop or skip; what stood before was read."""

    path: Path
    offset: int
    lost_bytes: int
    is_torn_tail: bool
    """True for a record cut short at the end of the last file, which a kill leaves behind."""


Entry = Frame | Checkpoint | Damage


def pack_frame(frame: Frame) -> bytes:
    """One frame as a record."""
    return pack(FRAME, _FRAME.pack(frame.session.ljust(16, b"\0")[:16], frame.arrival) + frame.data)


def pack(kind: int, payload: bytes) -> bytes:
    """One record."""
    return _HEAD.pack(MAGIC, kind, len(payload), zlib.crc32(payload, kind)) + payload


class JournalFile:
    """An open journal file.

    Threads: the store thread only. Blocks: for the disk. Raises: OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        """Write records; a short write is taken back, so that nothing half-written is followed by anything."""
        view = memoryview(data)
        done = 0
        try:
            while done < len(view):
                done += os.write(self._descriptor, view[done:])
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += done

    def sync(self) -> None:
        """Bring it to the disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_journal(paths: list[Path]) -> Iterator[Entry]:
    """Everything readable, oldest first; damage is an entry, never an exception."""
    for index, path in enumerate(paths):
        with path.open("rb") as file:
            yield from _read_file(file, path, is_last=index == len(paths) - 1)


def _read_file(file: BinaryIO, path: Path, *, is_last: bool) -> Iterator[Entry]:
    size = os.fstat(file.fileno()).st_size
    offset = 0
    while offset < size:
        file.seek(offset)
        head = file.read(_HEAD.size)
        entry = _read_record(file, head, size - offset)
        if entry is not None:
            yield entry[0]
            offset += entry[1]
            continue
        following = _next_record(file, offset + 1, size)
        end = size if following is None else following
        yield Damage(path, offset, end - offset, is_torn_tail=following is None and is_last)
        offset = end


def _read_record(file: BinaryIO, head: bytes, left: int) -> tuple[Frame | Checkpoint, int] | None:
    if len(head) < _HEAD.size:
        return None
    magic, kind, length, checksum = _HEAD.unpack(head)
    if magic != MAGIC or length > min(left - _HEAD.size, MAX_RECORD_BYTES):
        return None
    payload = file.read(length)
    if zlib.crc32(payload, kind) != checksum:
        return None
    total = _HEAD.size + length
    if kind == CHECKPOINT:
        return Checkpoint(payload), total
    if kind == FRAME and length >= _FRAME.size:
        session, arrival = _FRAME.unpack_from(payload)
        return Frame(session, arrival, payload[_FRAME.size :]), total
    return None


def _next_record(file: BinaryIO, start: int, size: int) -> int | None:
    """Where the next whole record begins after a damage."""
    file.seek(start)
    rest = file.read(size - start)
    at = rest.find(MAGIC)
    while at >= 0:
        file.seek(start + at)
        if _read_record(file, file.read(_HEAD.size), size - start - at) is not None:
            return start + at
        at = rest.find(MAGIC, at + 1)
    return None
