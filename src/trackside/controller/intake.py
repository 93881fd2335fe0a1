"""Takes in what sessions could not deliver: files they left, and what those that were killed had on their way."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import psutil

from trackside.controller.watch import is_running
from trackside.errors import TracksideError
from trackside.ingest.reader import FrameReader
from trackside.store import DiskThreads, RunFolder
from trackside.wire import codec
from trackside.wire.machine import machine_id
from trackside.wire.messages import Hello, Points
from trackside.wire.ring import points_of, process_namespace, read_ring
from trackside.wire.spool import LIVE_SUFFIX, RING_SUFFIX, SUFFIX, is_private, memory_path, private_path, read_spool

log = logging.getLogger("trackside.controller")

PIECE_FRAMES = 500
"""Frames read from the disk at a time."""
CLOCK_SLACK_S = 5.0
"""A process that began so much later than a file was last written is another one with the same number."""


@dataclass(slots=True)
class Estate:
    """What one session left."""

    hello: Hello
    spools: list[Path] = field(default_factory=list)
    """In the order of their frames."""
    ring: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return [*self.spools, self.ring] if self.ring is not None else list(self.spools)


def find_estates(
    folder: RunFolder, run: str, elsewhere: Sequence[Path] = (), *, of: Iterable[bytes] | None = None
) -> list[Estate]:
    """What sessions of a run left that nobody writes any more.

    It lies in the run folder, where a rank leaves it at its end, or in the folders of this user on this machine, where a
    rank that was killed has it.

    Args:
        folder: Of the run.
        run: Its id.
        elsewhere: More folders to look in.
        of: Sessions that were killed, which have nothing in the run folder; None: all.

    Blocks: for the disks. Raises: OSError.
    """
    wanted = None if of is None else {session.hex() for session in of}
    places = [*filter(is_private, (memory_path(), private_path())), *elsewhere]
    if wanted is None:
        places.append(folder.spool)
    files = [path for place in places for path in place.glob("*") if wanted is None or _session_of(path) in wanted]
    rings = {_session_of(path): path for path in files if path.suffix == RING_SUFFIX}
    found: dict[bytes, Estate] = {}
    for path in sorted(files, key=lambda path: path.name):
        hello = _read_hello(path) if path.suffix in (SUFFIX, LIVE_SUFFIX) else None
        if hello is None or (hello.run != run and path.parent != folder.spool):
            continue
        ring = rings.get(hello.session.hex())
        if path.suffix == LIVE_SUFFIX and _may_live(hello, path, ring, is_handed=path.parent in elsewhere):
            continue
        found.setdefault(hello.session, Estate(hello, ring=ring)).spools.append(path)
    return list(found.values())


class Intake:
    """Takes in what sessions of one run left, and removes it once it is on the controller's disk.

    Args:
        folder: Of the run.
        run: Its id.
        elsewhere: More folders to look in than the run's, and this user's on this machine.
        reader: Reads the frames as if they had come over the link; those that did are known and left out.
        apply: Takes the reader's inputs.
        disk: Reads the files.

    Threads: the event loop's only.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: str,
        elsewhere: Sequence[Path],
        *,
        reader: FrameReader,
        apply: Callable[[], None],
        disk: DiskThreads,
    ) -> None:
        self._folder, self._run, self._elsewhere = folder, run, elsewhere
        self._reader, self._apply, self._disk = reader, apply, disk
        self._taken: dict[bytes, Estate] = {}

    async def take_in(self, of: Iterable[bytes] | None = None) -> list[bytes]:
        """Look and read; where the disk does not answer it stays there. `of`: sessions; None: all.

        Returns: the sessions that had left something.
        """
        found = []
        try:
            estates = await self._disk.ask(lambda: find_estates(self._folder, self._run, self._elsewhere, of=of))
        except (OSError, TracksideError) as error:
            log.warning("whether ranks left anything for %s is not known: %s", self._folder.path, error)
            return []
        for estate in estates:
            try:
                await self._read(estate)
            except (OSError, TracksideError) as error:
                log.warning("what %s left in %s was not taken in: %s", estate.hello.host.host, estate.paths, error)
                continue
            self._taken[estate.hello.session] = estate
            found.append(estate.hello.session)
        return found

    async def _read(self, estate: Estate) -> None:
        frames = _frames(estate)
        while piece := await self._disk.ask(lambda: list(islice(frames, PIECE_FRAMES))):
            for frame in piece:
                self._reader.feed(estate.hello.session, frame, time.time(), is_left=True)
            self._apply()

    def remove_durable(self, durable: Mapping[bytes, int]) -> None:
        """Remove the files of sessions that are on the disk as far as they were read, unless a slow disk may hold them."""
        for session, estate in list(self._taken.items()):
            is_slow = any(path.is_relative_to(self._folder.path) for path in estate.paths)
            if not is_slow and durable.get(session, 0) >= self._reader.highest_seq(session):
                _remove(self._taken.pop(session))

    async def remove_all(self) -> None:
        """Everything that was read is on the disk."""
        estates, self._taken = list(self._taken.values()), {}
        try:
            await self._disk.ask(lambda: self._remove_all(estates))
        except (OSError, TracksideError) as error:
            log.warning("what was taken in could not be removed from %s: %s", self._folder.spool, error)

    def _remove_all(self, estates: list[Estate]) -> None:
        for estate in estates:
            _remove(estate)
        if self._folder.spool.is_dir() and not any(self._folder.spool.iterdir()):
            self._folder.spool.rmdir()


def _remove(estate: Estate) -> None:
    for path in estate.paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s was taken in and cannot be removed: %s", path, error)


def _frames(estate: Estate) -> Iterator[bytes]:
    """All frames, oldest first, and at last the calls that were in none."""
    seq, last = 0, None
    for path in estate.spools:
        for frame in read_spool(path):
            yield frame
            envelope = codec.open_envelope(frame)
            seq = max(seq, envelope.seq)
            last = envelope if envelope.kind == "points" else last
    points = codec.decode_body(last) if last is not None else None
    if estate.ring is not None:
        yield from _last_calls(estate.ring, seq, points if isinstance(points, Points) else None)


def _last_calls(path: Path, seq: int, last: Points | None) -> Iterator[bytes]:
    try:
        ring = read_ring(path)
    except ValueError as error:
        log.warning("the last calls are lost: %s", error)
        return
    through = ring.through if last is None else max(ring.through, last.through)
    known = frozenset(last.beyond if last is not None else ())
    calls = [call for call in ring.calls if call[-1] > through and call[-1] not in known]
    if calls:
        yield codec.encode(points_of(calls), max(ring.next_seq, seq + 1))


def _session_of(path: Path) -> str:
    """Of a session's file, its session in hex."""
    return path.name.removeprefix("trackside-").partition(".")[0].partition("-")[0]


def _read_hello(path: Path) -> Hello | None:
    """The first frame; None where there is none, which is said."""
    try:
        for frame in read_spool(path):
            hello = codec.decode_body(codec.open_envelope(frame))
            if isinstance(hello, Hello):
                return hello
            break
    except FileNotFoundError:
        return None  # its session has just delivered it all
    except (OSError, TracksideError) as error:
        log.warning("the spool file %s cannot be read: %s", path, error)
        return None
    log.warning("the spool file %s does not begin with a hello", path)
    return None


def _may_live(hello: Hello, path: Path, ring: Path | None, *, is_handed: bool) -> bool:
    """Whether a session may still write. What cannot be seen from here may, unless its folder was named for being over."""
    if hello.host.machine_id != machine_id() or (ring is not None and _namespace_of(ring) != process_namespace()):
        return not is_handed
    if not is_running(hello.process.pid):
        return False
    try:
        return psutil.Process(hello.process.pid).create_time() <= path.stat().st_mtime + CLOCK_SLACK_S
    except (psutil.Error, OSError):
        return is_running(hello.process.pid)


def _namespace_of(ring: Path) -> int:
    try:
        return read_ring(ring).namespace
    except (OSError, ValueError):
        return process_namespace()
