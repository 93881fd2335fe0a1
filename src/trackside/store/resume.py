"""Where a crashed run goes on: which journal files still count, and from which state."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from trackside.errors import ProtocolError
from trackside.store.folder import RunFolder, unlink_all
from trackside.store.journal import Checkpoint, Damage, Frame, read_file, read_journal
from trackside.store.numbering import span_of
from trackside.wire import codec, messages


class Layout(msgspec.Struct, frozen=True):
    """The files of a run folder that count at one moment."""

    points: tuple[Path, ...]
    resources: tuple[Path, ...]
    tail: tuple[Path, ...]
    """Journal files whose points no segment holds."""
    settled: tuple[Path, ...]
    """Journal files that segments stand for already; a clean end or a rotation was cut short."""


class Resumption(msgspec.Struct, frozen=True):
    """What a journal still holds beyond the segments."""

    checkpoint: bytes | None
    """State before the first frame; None: the run's beginning."""
    files: tuple[Path, ...]
    next_file: int
    """Number of the journal file that the writer goes on with."""
    settled: frozenset[Path] = frozenset()
    """Files to read for the state only: their points lie in segments."""

    def frames(self) -> Iterator[Frame | Damage]:
        """Frames after the checkpoint, oldest first; later checkpoints say nothing new and are left out.

        Where segments hold the points already, the frames come without them, so that nothing is stored twice.
        """
        for path in self.files:
            for entry in read_journal([path]):
                if isinstance(entry, Frame):
                    yield _without_points(entry) if path in self.settled else entry
                elif isinstance(entry, Damage):
                    yield entry


def look_at(folder: RunFolder) -> Layout:
    """Which files count now. Blocks: for the disk."""
    while True:
        layout = _look_once(folder)
        if layout == _look_once(folder):  # else a writer was at it between two listings
            return layout


def find_resumption(folder: RunFolder, *, read_only: bool = False) -> Resumption:
    """Look at a run folder after a crash; unless `read_only`, what does not count any more is removed."""
    layout = look_at(folder)
    files, settled = layout.tail, frozenset[Path]()
    if _head_state(files) is None and layout.settled:
        files, settled = (layout.settled[-1], *files), frozenset(layout.settled[-1:])
    if not read_only:
        folder.sweep()
        unlink_all(path for path in layout.settled if path not in settled)
        unlink_all(path for path in folder.resource_files() if path not in layout.resources)
    numbers = [*(span_of(path)[1] for path in layout.points), *(int(path.stem) for path in folder.journal_files())]
    return Resumption(_head_state(files), files, max(numbers, default=0) + 1, settled)


def _without_points(frame: Frame) -> Frame:
    """The frame, with its sequence and definitions but no values."""
    try:
        envelope = codec.open_envelope(frame.data)
        message = codec.decode_body(envelope) if envelope.kind == "points" else None
    except ProtocolError:
        return frame
    if not isinstance(message, messages.Points):
        return frame
    emptied = messages.Points(defs=message.defs, time=b"", step=b"", epoch=b"", width=b"", series=b"", value=b"")
    return msgspec.structs.replace(frame, data=codec.encode(emptied, envelope.seq))


def _look_once(folder: RunFolder) -> Layout:
    points = tuple(folder.point_files())
    covered = max((span_of(path)[1] for path in points), default=0)
    journal = folder.journal_files()
    tail = tuple(path for path in journal if int(path.stem) > covered)
    settled = tuple(path for path in journal if int(path.stem) <= covered)
    first = int(tail[0].stem) if tail else covered + 1
    resources = tuple(path for path in folder.resource_files() if span_of(path)[1] < first)
    return Layout(points, resources, tail, settled)


def _head_state(files: tuple[Path, ...]) -> bytes | None:
    for entry, _end in read_file(files[0]) if files else ():
        return entry.data if isinstance(entry, Checkpoint) else None
    return None
