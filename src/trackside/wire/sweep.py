"""The sweep: what killed sessions left in the machine's memory goes to a disk, so that it does not pile up there.

Nothing is thrown away that somebody could still take in. It goes into the folder of its run where that is to be had, and to
`/var/tmp` where it is not; `trackside recover` finds it in both. A file that a process has open is never touched, and neither
is anything that is not this user's alone.
"""

import contextlib
import json
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from trackside.errors import TracksideError
from trackside.wire.estate import Estate, frames_of, read_hello, session_of
from trackside.wire.messages import Hello
from trackside.wire.ring import read_ring
from trackside.wire.spool import (
    LIVE_SUFFIX,
    RING_SUFFIX,
    SUFFIX,
    is_private,
    lasting_path,
    made_private,
    memory_path,
    open_kept,
    private_path,
    seize,
)

log = logging.getLogger("trackside.wire")

SETTLED_S = 600.0
"""So long after its last write whoever was to take it in by himself has done it: its controller, the agent, the next rank."""
CROWD_BYTES = 64 * 1024 * 1024
"""Where all of it takes more than so much memory, …"""
CROWD_SETTLED_S = 60.0
"""… so long."""
RUN_SPOOL = "spool"
"""In a run folder, what its ranks left."""
UNDER_WAY = ".moving"
"""Of a copy that is not whole."""
DOCUMENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Remains:
    """What one session that is over has on this machine."""

    session: str
    """In hex."""
    run: str | None
    """Its id; None where no file says it."""
    folder: Path | None
    """Of the run, as a session of it was told; it may not be reachable from here."""
    paths: tuple[Path, ...]
    size: int
    written_at: float
    """UTC epoch seconds of the last write."""
    is_empty: bool
    """Whether nothing of it could be taken in: all had been delivered."""

    @property
    def is_in_memory(self) -> bool:
        """Whether some of it lies in the machine's memory."""
        return any(path.parent == memory_path() for path in self.paths)


@dataclass(frozen=True, slots=True)
class Moved:
    """What one sweep did with what the sessions of one run left."""

    run: str | None
    sessions: int
    size: int
    target: Path
    """Where it lies now."""
    folder: Path | None
    """Of the run, when that is where it lies."""

    def __str__(self) -> str:
        of = f"{self.sessions} killed process{'' if self.sessions == 1 else 'es'} of run {self.run or 'unknown'}"
        what = f"{megabytes(self.size)} that {of} left"
        if self.folder is not None:
            return f"{what} went to {self.target}; `trackside recover {self.folder}` takes it in if the run has not"
        return f"{what} went to {self.target}; `trackside recover` of that run takes it in on this machine"


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e6:.1f} MB" if size >= 50_000 else f"{size / 1e3:.1f} kB"


def survey(now: float | None = None, *, settled_s: float = 0.0) -> list[Remains]:
    """What sessions that are over have left on this machine, oldest first.

    Args:
        now: UTC epoch seconds; None: by the clock.
        settled_s: Leave out what was written later than so long ago.

    Blocks: for the local disks. Raises: never.
    """
    now = time.time() if now is None else now
    sessions: dict[str, dict[Path, os.stat_result]] = {}
    for path, status in _files():
        sessions.setdefault(session_of(path), {})[path] = status
    found = []
    for session, files in sessions.items():
        written_at = max(status.st_mtime for status in files.values())
        if now - written_at < settled_s or not all(map(_is_free, files)):
            continue
        found.append(_look_at(session, sorted(files, key=lambda path: path.name), files, written_at))
    return sorted(_with_folders(found), key=lambda remains: remains.written_at)


def sweep(settled_s: float = SETTLED_S, crowd_bytes: int = CROWD_BYTES) -> list[Moved]:
    """Move what is over from the machine's memory to a disk; say what was moved, one for each run.

    Blocks: for the disks, of run folders too. Raises: never.
    """
    remains = survey(settled_s=min(settled_s, CROWD_SETTLED_S))
    in_memory = sum(left.size for left in remains if left.is_in_memory)
    settled_before = time.time() - (settled_s if in_memory <= crowd_bytes else min(settled_s, CROWD_SETTLED_S))
    moved: dict[str | None, Moved] = {}
    for left in remains:
        if left.written_at > settled_before:
            continue
        if left.is_empty:
            _with_all_held(left.paths, _remove)
            continue
        folder = reachable_folder(left)
        target = folder / RUN_SPOOL if folder is not None else lasting_path() if left.is_in_memory else None
        if target is not None and _move(left, target, is_own=folder is not None):
            known = moved.get(left.run) or Moved(left.run, 0, 0, target, folder)
            moved[left.run] = replace(known, sessions=known.sessions + 1, size=known.size + left.size)
    return list(moved.values())


# --- looking ----------------------------------------------------------------------------------------------------------


def _files() -> Iterator[tuple[Path, os.stat_result]]:
    """Sessions' files in this user's folders: plain ones, his own, with one name."""
    for folder in filter(is_private, dict.fromkeys((memory_path(), private_path(), lasting_path()))):
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                if path.suffix in (SUFFIX, LIVE_SUFFIX, RING_SUFFIX) and (status := _status_of(path)) is not None:
                    yield path, status


def _status_of(path: Path) -> os.stat_result | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    is_plain = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and status.st_nlink == 1
    return status if is_plain else None


def _is_free(path: Path) -> bool:
    try:
        with open_kept(path) as file:
            return seize(file.fileno())
    except OSError:
        return False


def _look_at(session: str, paths: list[Path], files: dict[Path, os.stat_result], written_at: float) -> Remains:
    spools = [path for path in paths if path.suffix != RING_SUFFIX]
    hellos = [hello for path in spools if files[path].st_size and (hello := read_hello(path)) is not None]
    hello = hellos[0] if hellos else None
    ring = next((path for path in paths if path.suffix == RING_SUFFIX), None)
    return Remains(
        session=session,
        run=hello.run if hello is not None else None,
        folder=next((_folder_of(hello.directory) for hello in hellos if hello.directory), None),
        paths=tuple(paths),
        size=sum(files[path].st_size for path in paths),
        written_at=written_at,
        is_empty=_is_empty(hello, spools, ring),
    )


def _folder_of(directory: str) -> Path:
    return Path(os.fsdecode(directory.encode("utf-8", "surrogateescape")))


def _is_empty(hello: Hello | None, spools: list[Path], ring: Path | None) -> bool:
    """What cannot be read is not."""
    try:
        if hello is not None:
            frames = frames_of(Estate(hello, spools, ring))
            return next(frames, None) is None or next(frames, None) is None
        content = read_ring(ring) if ring is not None else None
        has_calls = content is not None and any(call[-1] > content.through for call in content.calls)
        return not has_calls and not any(path.stat().st_size for path in spools)
    except (OSError, TracksideError, ValueError):
        return False


def _with_folders(found: list[Remains]) -> Iterator[Remains]:
    """Sessions of one run have one folder; one that was killed early had not been told it."""
    folders = {left.run: left.folder for left in found if left.folder is not None}
    for left in found:
        yield replace(left, folder=left.folder or (folders.get(left.run) if left.run else None))


def reachable_folder(left: Remains) -> Path | None:
    """The folder of its run, when it is there, is this user's and is of that run."""
    folder = left.folder
    if folder is None or left.run is None or not folder.is_absolute():
        return None
    try:
        if not _is_own_folder(folder):
            return None
        with (folder / "run.json").open("rb") as file:
            document = json.loads(file.read(DOCUMENT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return folder if isinstance(document, dict) and document.get("id") == left.run else None


def _is_own_folder(folder: Path) -> bool:
    """Not a link to one, and this user's. Raises: OSError."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


# --- moving -----------------------------------------------------------------------------------------------------------


def _move(left: Remains, target: Path, *, is_own: bool) -> bool:
    """Move its files; whether they have all gone. What could not be moved stays where it is."""
    try:
        if is_own:
            target.mkdir(exist_ok=True)
            if not _is_own_folder(target):
                raise NotADirectoryError(f"{target} is no folder of this user")
        else:
            made_private(target)
    except OSError as error:
        log.warning("what a killed process left cannot be moved to %s: %s", target, error)
        return False

    def move(path: Path, file: BinaryIO) -> None:
        if path.parent != target:
            _copy(file, target / path.with_suffix(SUFFIX if path.suffix == LIVE_SUFFIX else path.suffix).name)
            path.unlink(missing_ok=True)

    return _with_all_held(left.paths, move)


def _remove(path: Path, file: BinaryIO) -> None:
    path.unlink(missing_ok=True)


def _copy(file: BinaryIO, target: Path) -> None:
    """It is whole and on the disk, or not there. Raises: OSError."""
    half = target.with_name(target.name + UNDER_WAY)
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            times = os.fstat(file.fileno())
            os.utime(copy.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
            os.fsync(copy.fileno())
        half.replace(target)
    except OSError:
        half.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _with_all_held(paths: Iterable[Path], act: Callable[[Path, BinaryIO], None]) -> bool:
    """Act on each file while no process has any of them; whether it was done."""
    try:
        with contextlib.ExitStack() as held:
            files = [(path, held.enter_context(open_kept(path))) for path in paths]
            if not all(seize(file.fileno()) for _, file in files):
                return False
            for path, file in files:
                act(path, file)
    except FileNotFoundError:
        return False  # somebody has just taken it in
    except OSError as error:
        log.warning("what a killed process left stays in memory: %s", error)
        return False
    return True
