"""What a session left when it ended before it had delivered everything: its files, and the frames in them."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trackside.errors import TracksideError
from trackside.wire import codec
from trackside.wire.machine import machine_id
from trackside.wire.messages import Hello, Notice, Points
from trackside.wire.processes import began_at, is_running
from trackside.wire.ring import points_of, process_namespace, read_ring
from trackside.wire.spool import (
    LIVE_SUFFIX,
    RING_SUFFIX,
    SUFFIX,
    is_private,
    lasting_path,
    memory_path,
    private_path,
    read_spool,
)

log = logging.getLogger("trackside.wire")

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
    run: str,
    spool: Path | None = None,
    elsewhere: Sequence[Path] = (),
    *,
    of: Iterable[bytes] | None = None,
    starters: Collection[int] = (),
) -> list[Estate]:
    """What sessions of a run left that nobody writes any more.

    It lies in the run folder, where a rank leaves it at its end, or in the folders of this user on this machine, where a
    rank that was killed has it.

    Args:
        run: Its id.
        spool: In its run folder; all in there is of this run. None: not to be looked into.
        elsewhere: More folders to look in.
        of: Sessions; None: all.
        starters: Processes of this machine that started the run's controllers. One that was killed before it knew the run
            left files that name none.

    Blocks: for the disks. Raises: OSError.
    """
    wanted = None if of is None else {session.hex() for session in of}
    places = [*filter(is_private, dict.fromkeys((memory_path(), private_path(), lasting_path()))), *elsewhere]
    if spool is not None:
        places.append(spool)
    files = [path for place in places for path in place.glob("*") if wanted is None or session_of(path) in wanted]
    rings = {session_of(path): path for path in files if path.suffix == RING_SUFFIX}
    found: dict[bytes, Estate] = {}
    spools = [path for path in sorted(files, key=lambda path: path.name) if path.suffix in (SUFFIX, LIVE_SUFFIX)]
    hellos = [(path, hello) for path in spools if (hello := read_hello(path)) is not None]
    ours = {hello.session for _, hello in hellos if hello.run == run or _is_starters(hello, starters)}
    for path, hello in hellos:
        if path.parent != spool and (hello.session not in ours or hello.run not in (run, None)):
            continue
        ring = rings.get(hello.session.hex())
        if path.suffix == LIVE_SUFFIX and _may_live(hello, path, ring, is_handed=path.parent in elsewhere):
            continue
        found.setdefault(hello.session, Estate(hello, ring=ring)).spools.append(path)
    return list(found.values())


def _is_starters(hello: Hello, starters: Collection[int]) -> bool:
    """Whether it is of a process that started the run's controller, and had not heard of the run yet."""
    return hello.run is None and hello.process.pid in starters and hello.host.machine_id == machine_id()


def remove(estate: Estate) -> None:
    """It is in other hands. Blocks: for the disks."""
    for path in estate.paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s was taken in and cannot be removed: %s", path, error)


def frames_of(estate: Estate) -> Iterator[bytes]:
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
    number = max(ring.next_seq, seq + 1)
    for message in points_of(calls):
        yield codec.encode(message, number)
        number += 1
    if calls:
        lost = calls[-1][-1] - through - len(calls) - len(known)
        if lost > 0:
            text = f"{lost:,} of its last calls of log() were in no file when it ended: they came too quickly"
            yield codec.encode(Notice(time=calls[-1][1], about="calls lost", text=text, count=lost), number)


def session_of(path: Path) -> str:
    """Of a session's file, its session in hex."""
    return path.name.removeprefix("trackside-").partition(".")[0].partition("-")[0]


def read_hello(path: Path) -> Hello | None:
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
    began = began_at(hello.process.pid)
    try:
        return began is None or began <= path.stat().st_mtime + CLOCK_SLACK_S
    except OSError:
        return True


def _namespace_of(ring: Path) -> int:
    try:
        return read_ring(ring).namespace
    except (OSError, ValueError):
        return process_namespace()
