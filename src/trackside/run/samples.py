"""Resource samples as they are kept: the newest of a path whole, older ones packed.

A record of a rank takes 100 bytes so instead of 660, in memory and in every checkpoint, and there is one each two seconds of
every rank and host.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from trackside.wire.documents import ResourceRecord
from trackside.wire.messages import GpuSample

_OF_PATH = ("path", "host", "rank")
"""The same in all records of a path."""
_PACKED = tuple(name for name in ResourceRecord.__struct_fields__ if name not in _OF_PATH)
_OVERHEAD_BYTES = 41
"""What bytes cost that hold anything, and their place in a list."""


class PathSamples(msgspec.Struct):
    """The samples of one path, ascending."""

    newest: ResourceRecord
    older: list[bytes] = []

    def __len__(self) -> int:
        return len(self.older) + 1

    def add(self, record: ResourceRecord, *, keep_gpus: bool) -> int:
        """Take a record; returns by how many bytes more is kept. `keep_gpus`: of the one that is no longer the newest."""
        packed = _pack(self.newest if keep_gpus else msgspec.structs.replace(self.newest, gpus=[]))
        self.older.append(packed)
        self.newest = record
        return _size(packed)

    def thin(self, fewest: int) -> int:
        """Drop every second record of the older half, unless there are so few; returns how many bytes that were."""
        half = len(self.older) // 2
        if len(self) <= fewest:
            return 0
        gone = sum(map(_size, self.older[1:half:2]))
        self.older[:half] = self.older[:half:2]
        return gone

    def spread(self, most: int) -> list[ResourceRecord]:
        """At most so many, evenly taken, the newest always."""
        count = min(most, len(self))
        last = len(self.older)
        places = [last - at * (last + 1) // count for at in range(count - 1, 0, -1)]
        return [*self._unpack([self.older[at] for at in places]), self.newest] if count else []

    def _unpack(self, packed: Sequence[bytes]) -> list[ResourceRecord]:
        place = {name: getattr(self.newest, name) for name in _OF_PATH}
        return [ResourceRecord(**place, **dict(zip(_PACKED, _values(one), strict=True))) for one in packed]


def _pack(record: ResourceRecord) -> bytes:
    return msgspec.msgpack.encode([getattr(record, name) for name in _PACKED])


def _values(packed: bytes) -> list[Any]:
    values: list[Any] = msgspec.msgpack.decode(packed)
    if values[-1]:  # the GPUs
        values[-1] = msgspec.convert(values[-1], list[GpuSample])
    return values


def _size(packed: bytes) -> int:
    return len(packed) + _OVERHEAD_BYTES
