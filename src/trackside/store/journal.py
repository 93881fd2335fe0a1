"""The journal: frames as they came, each with its length and checksum, only ever appended to."""

import contextlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

MAGIC = b"TSJ1"
_HEAD = struct.Struct("<4sBII")
"""Magic, record type, payload bytes, CRC-32 of type and payload."""
_FRAME = struct.Struct("<16sd")
"""Session, arrival (UTC epoch seconds)."""

CHECKPOINT = 1
FRAME = 2
ROLL = 3
MAX_RECORD_BYTES = 512 * 1024 * 1024
FRAME_OVERHEAD_BYTES = _HEAD.size + _FRAME.size
_WRITE_BYTES = 4 * 1024 * 1024
_SEARCH_BYTES = 1024 * 1024 * 1024
"""Checksum work spent on finding the next record after a damage, at most."""


class Frame(msgspec.Struct, frozen=True):
    """One frame as it came."""

    session: bytes
    arrival: float
    data: bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """The state before everything that follows."""

    data: bytes


class RollCall(msgspec.Struct, frozen=True):
    """The sessions before everything that follows: who they are, what their series are called."""

    data: bytes


class Damage(msgspec.Struct, frozen=True):
    """Where reading had to stop or skip; what stood before was read, what stands whole after it too."""

    path: Path
    offset: int
    lost_bytes: int
    is_torn_tail: bool
    """True for a record cut short at the end of a file, which a kill leaves behind."""


Entry = Frame | Checkpoint | RollCall | Damage


def pack_frame(frame: Frame) -> bytes:
    """One frame as a record."""
    return pack(FRAME, _FRAME.pack(frame.session.ljust(16, b"\0")[:16], frame.arrival) + frame.data)


def pack(kind: int, payload: bytes) -> bytes:
    """One record."""
    return _HEAD.pack(MAGIC, kind, len(payload), zlib.crc32(payload, kind)) + payload


class AppendFile:
    """A file that grows by whole pieces: what could not be brought to the disk is taken back.

    Threads: the store thread only. Blocks: for the disk. Raises: OSError.
    """

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        exclusive = os.O_EXCL if is_new else 0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | exclusive
        self.path = path
        self._descriptor = os.open(path, flags, 0o600 if is_new else 0o644)
        self.size = os.fstat(self._descriptor).st_size
        """Bytes that are certain to be whole."""
        self._is_torn = False

    def append(self, records: Iterable[bytes]) -> None:
        """Write records and bring them to the disk, all or none of them."""
        written = self.size
        if self._is_torn:
            os.ftruncate(self._descriptor, written)
        self._is_torn = True
        try:
            for piece in _pieces(records):
                written += self._write(piece)
            os.fdatasync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # a full disk gets its space back; else the next try takes it back
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size, self._is_torn = written, False

    def ends_in(self, ending: bytes) -> bool:
        """Whether the file is empty or its last bytes are these."""
        at = self.size - len(ending)
        return self.size == 0 or (at >= 0 and os.pread(self._descriptor, len(ending), at) == ending)

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # all that counts was brought to the disk before
                os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: bytes) -> int:
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += os.write(self._descriptor, view[done:])
        return done


def _pieces(records: Iterable[bytes]) -> Iterator[bytes]:
    """Join records to writes of a few megabytes."""
    piece: list[bytes] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record)
        if size >= _WRITE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def read_journal(paths: Iterable[Path]) -> Iterator[Entry]:
    """Everything readable, oldest first; damage is an entry, never an exception. A file that has gone is left out."""
    for path in paths:
        for entry, _end in read_file(path):
            yield entry


def read_file(path: Path, start: int = 0) -> Iterator[tuple[Entry, int]]:
    """Entries of one file from an offset on, each with the offset behind it."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    except OSError:  # a folder in its place, a ring of links, no permission
        yield Damage(path, start, 0, is_torn_tail=False), start
        return
    with file:
        yield from _read_open(file, path, start)


def _read_open(file: BinaryIO, path: Path, start: int) -> Iterator[tuple[Entry, int]]:
    size = os.fstat(file.fileno()).st_size
    offset = start
    file.seek(offset)
    while offset < size:
        record = _read_record(file, size - offset)
        if record is None:
            end, torn = _find_next(file, offset, size)
            yield Damage(path, offset, end - offset, is_torn_tail=torn), end
            offset = end
            file.seek(offset)
            continue
        entry, length = record
        offset += length
        if entry is not None:
            yield entry, offset


def _read_record(file: BinaryIO, left: int) -> tuple[Frame | Checkpoint | RollCall | None, int] | None:
    """The record that begins here and its length; None when there is no whole one. Of an unknown kind: no entry."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, kind, length, checksum = _HEAD.unpack(head)
    if magic != MAGIC or length > min(left - _HEAD.size, MAX_RECORD_BYTES):
        return None
    payload = file.read(length)
    if len(payload) != length or zlib.crc32(payload, kind) != checksum:
        return None
    return _entry(kind, payload), _HEAD.size + length


def _entry(kind: int, payload: bytes) -> Frame | Checkpoint | RollCall | None:
    if kind == CHECKPOINT:
        return Checkpoint(payload)
    if kind == ROLL:
        return RollCall(payload)
    if kind == FRAME and len(payload) >= _FRAME.size:
        session, arrival = _FRAME.unpack_from(payload)
        return Frame(session, arrival, payload[_FRAME.size :])
    return None


def _find_next(file: BinaryIO, offset: int, size: int) -> tuple[int, bool]:
    """Where the next whole record begins after a damage, and whether the damage is only a record cut short."""
    file.seek(offset)
    rest = file.read(size - offset)
    at, work = rest.find(MAGIC, 1), 0
    while at >= 0 and work < _SEARCH_BYTES:
        file.seek(offset + at)
        if _read_record(file, size - offset - at) is not None:
            return offset + at, False
        length = _HEAD.unpack_from(rest, at)[2] if len(rest) - at >= _HEAD.size else 0
        work += length if length < len(rest) - at else 0
        at = rest.find(MAGIC, at + 1)
    is_zeros = not rest.strip(b"\0")
    if len(rest) < _HEAD.size:
        return size, is_zeros or rest.startswith(MAGIC[: len(rest)])
    magic, _kind, length, _checksum = _HEAD.unpack_from(rest)
    return size, is_zeros or (magic == MAGIC and length > len(rest) - _HEAD.size)
