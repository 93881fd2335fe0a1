"""The ring: what `log()` was told and no frame holds yet, in memory that outlives its process.

A page of numbers, then two halves that are written in turn. A half is a row of MessagePack arrays (epoch, time, step,
values, number) that ends with the first zero byte. Numbers count the calls of a session from 1; a call is in a frame
already when its number is at most `through`, of the page or of the last `Points` message that was kept.
"""

import itertools
import os
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trackside.wire.messages import Points, SeriesDef
from trackside.wire.spool import open_kept

PAGE_BYTES = 4096
HEAD = struct.Struct("<8sQQQQ")
"""Mark, size of a half, process namespace, `through`, sequence of the next frame."""
MARK = b"TSRING1\n"
THROUGH_AT = 24
FRAME_VALUES = 65_536
"""Values after which a message is full."""
FIRST_SERIES = 50_000
"""Series ids of calls that are taken from a ring; a session's own are below."""

LoggedCall = tuple[int, float, int, dict[Any, Any], int]
"""(epoch, time, step, values, number)."""

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(LoggedCall).decode


@dataclass(frozen=True, slots=True)
class RingContent:
    """What a ring holds after its process has gone."""

    namespace: int
    """Of the processes among which its own was."""
    through: int
    next_seq: int
    calls: list[LoggedCall]
    """In the order of their numbers, those of frames among them."""


def process_namespace() -> int:
    """Tells process ids of one container from those of another; 0 where the kernel does not say."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - no object for a number
    except OSError:
        return 0


def read_ring(path: Path) -> RingContent:
    """Read a ring. Raises: OSError; ValueError for what is none."""
    with open_kept(path) as file:
        data = file.read()
    if len(data) < PAGE_BYTES:
        raise ValueError(f"{path} is no ring: {len(data)} bytes")
    mark, half_bytes, namespace, through, next_seq = HEAD.unpack_from(data)
    if mark != MARK or len(data) != PAGE_BYTES + 2 * half_bytes:
        raise ValueError(f"{path} is no ring of this version")
    calls = {call[-1]: call for half in (0, 1) for call in _calls(data, PAGE_BYTES + half * half_bytes, half_bytes)}
    return RingContent(namespace, through, next_seq, [calls[number] for number in sorted(calls)])


def points_of(calls: Iterable[LoggedCall]) -> Iterator[Points]:
    """Calls as messages with names of their own. A value that is no number is left out."""
    ids: dict[str, int] = {}
    waiting = iter(calls)
    while first := next(waiting, None):
        yield _message_of(itertools.chain((first,), waiting), ids)


def _message_of(calls: Iterator[LoggedCall], ids: dict[str, int]) -> Points:
    """One message of as many calls as it holds."""
    known = len(ids)
    time, step, epoch, width = array("d"), array("q"), array("i"), array("I")
    series, value = array("I"), array("d")
    for at_epoch, at, at_step, values, _ in calls:
        before = len(value)
        for key, given in values.items():
            name = key if isinstance(key, str) else str(key)
            if name and isinstance(given, (int, float)):
                series.append(ids.setdefault(name, FIRST_SERIES + len(ids)))
                value.append(given)
        time.append(at)
        step.append(at_step)
        epoch.append(at_epoch)
        width.append(len(value) - before)
        if len(value) >= FRAME_VALUES:
            break
    return Points(
        defs=[SeriesDef(id=number, name=name) for name, number in itertools.islice(ids.items(), known, None)],
        time=time.tobytes(),
        step=step.tobytes(),
        epoch=epoch.tobytes(),
        width=width.tobytes(),
        series=series.tobytes(),
        value=value.tobytes(),
    )


def _calls(data: bytes, at: int, size: int) -> Iterator[LoggedCall]:
    """Whole calls of one half; one that was cut off in the middle of its writing ends them."""
    end = at + size
    while at < end and data[at]:
        try:
            behind = _skip(data, at)
            call = _decode(data[at:behind])
        except (IndexError, ValueError, msgspec.DecodeError, UnicodeDecodeError):
            return
        if behind > end or call[-1] < 1:
            return
        yield call
        at = behind


_WIDTHS = {
    0xC0: 0,
    0xC2: 0,
    0xC3: 0,
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC4: 1, 0xC5: 2, 0xC6: 4}
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def _skip(data: bytes, at: int) -> int:
    """Where the MessagePack value at `at` ends. Raises: IndexError, ValueError."""
    waiting = 1
    while waiting:
        kind = data[at]
        at += 1
        waiting -= 1
        if kind < 0x80 or kind >= 0xE0:
            continue
        if kind < 0x90:
            waiting += 2 * (kind & 0x0F)
        elif kind < 0xA0:
            waiting += kind & 0x0F
        elif kind < 0xC0:
            at += kind & 0x1F
        elif kind in _WIDTHS:
            at += _WIDTHS[kind]
        elif kind in _TEXTS:
            width = _TEXTS[kind]
            at += width + int.from_bytes(data[at : at + width], "big")
        elif kind in _LISTS or kind in _MAPS:
            width = _LISTS.get(kind) or _MAPS[kind]
            count = int.from_bytes(data[at : at + width], "big")
            at += width
            waiting += count * (2 if kind in _MAPS else 1)
        else:
            raise ValueError(f"no MessagePack of ours: {kind:#x} at {at - 1}")
    return at
