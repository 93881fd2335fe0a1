"""Where a crashed run goes on: which journal files still count, and from which state."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trackside.store import segments
from trackside.store.folder import RunFolder
from trackside.store.journal import Checkpoint, Damage, Entry, Frame, read_journal


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a journal still holds beyond the segments."""

    checkpoint: bytes | None
    """State before the first frame; None: the run's beginning."""
    files: tuple[Path, ...]
    next_file: int

    def frames(self) -> Iterator[Frame | Damage]:
        """Frames after the checkpoint, oldest first; later checkpoints say nothing new and are left out."""
        for entry in read_journal(list(self.files)):
            if not isinstance(entry, Checkpoint):
                yield entry


def find_resumption(folder: RunFolder, *, read_only: bool = False) -> Resumption:
    """Look at a run folder after a crash; unless `read_only`, journal files that segments cover are removed."""
    points = folder.point_files() if read_only else segments.drop_covered(folder)
    covered = max(map(segments.number_of, points), default=0)
    files = folder.journal_files()
    for path in files:
        if int(path.stem) <= covered and not read_only and _has_later(files, covered):
            path.unlink(missing_ok=True)
    left = [path for path in files if int(path.stem) > covered]
    numbers = [covered, *(int(path.stem) for path in files)]
    return Resumption(_head_state(left), tuple(left), max(numbers) + 1)


def _has_later(files: list[Path], covered: int) -> bool:
    return any(int(path.stem) > covered for path in files)


def _head_state(files: list[Path]) -> bytes | None:
    first: Entry | None = next(iter(read_journal(files[:1])), None) if files else None
    return first.data if isinstance(first, Checkpoint) else None
