"""Frames in their durable order until the controller has them on disk: in memory, and in files that outlive us."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from trackside.monitor.spool import Spool, private_folder
from trackside.monitor.trail import Place, Trail
from trackside.wire.spool import stem_of, temporary_folder

MEMORY_BYTES = 32 * 1024 * 1024
LAST_PART = "000000"
"""Sorts before the files of the trail, as its frames do."""


class Outbox:
    """Sequenced frames that are not acknowledged.

    Each is on the trail from the moment it is taken, once there is one. The oldest lie in memory too; younger ones come
    back from the trail as memory empties. What neither takes is refused.

    Threads: the send thread only. Blocks: as `Trail` does.
    """

    def __init__(self, session: bytes, memory_bytes: int = MEMORY_BYTES) -> None:
        self._session = session
        self._memory_bytes = memory_bytes
        self._frames: deque[tuple[int, bytes, Place | None]] = deque()
        self._bytes = 0
        self._sent = 0
        """How many of `_frames`, from the left, are on their way."""
        self._trail: Trail | None = None
        self._trailed: deque[tuple[int, Place]] = deque()
        """Frames that are not in memory."""
        self.hello = b""
        """First frame of every file."""
        self.may_spool = True
        """False where nobody would ever take the files in: without a controller."""
        self.next_seq = 1
        self.lost_frames = 0
        """Frames that were taken and could not be read back."""
        self.unkept_frames = 0
        """Frames that are in memory only."""

    def __len__(self) -> int:
        return len(self._frames) + len(self._trailed)

    @property
    def oldest_seq(self) -> int:
        """Of the oldest frame that is here; where there is none, of the next one."""
        if self._frames:
            return self._frames[0][0]
        return self._trailed[0][0] if self._trailed else self.next_seq

    def open_trail(self, hello: bytes) -> None:
        """From now on every frame is on the trail, those that wait too, behind this hello."""
        self.hello = hello
        if not self.may_spool:
            return
        if self._trail is None:
            self._trail = Trail(self._session, hello)
            self._trail.begin()
        else:
            self._trail.greet(hello)
        if self._trailed:  # they must stay behind those in memory
            return
        waiting, self._frames, self.unkept_frames = self._frames, deque(), 0
        for seq, frame, former in waiting:
            place = self._trail.append(frame)
            self.unkept_frames += place is None
            self._frames.append((seq, frame, place))
            if former is not None:
                self._trail.forget(former)

    def greet(self, hello: bytes) -> None:
        """From the next frame on, files of the trail begin with another hello."""
        self.hello = hello
        if self._trail is not None:
            self._trail.greet(hello)

    def close_trail(self) -> None:
        """Nobody will take it in."""
        self.may_spool = False
        if self._trail is not None and not self._trailed:
            self._trail.close()
            self._trail = None
            self._frames = deque((seq, frame, None) for seq, frame, _ in self._frames)

    @property
    def has_trail(self) -> bool:
        """Whether what is taken outlives this process."""
        return self._trail is not None

    def add(self, frame: bytes, seq: int) -> bool:
        """Take the next frame; False when there is no place for it."""
        fits = not self._trailed and (self._bytes + len(frame) <= self._memory_bytes or not self._frames)
        if not fits and self._trail is None and self.may_spool:
            self.open_trail(self.hello)
        place = self._trail.append(frame) if self._trail is not None else None
        if fits:
            self._frames.append((seq, frame, place))
            self._bytes += len(frame)
            self.unkept_frames += place is None
        elif place is not None:
            self._trailed.append((seq, place))
        return fits or place is not None

    def acknowledge(self, durable_seq: int) -> None:
        """Forget what is on the controller's disk."""
        while self._frames and self._frames[0][0] <= durable_seq:
            _, frame, place = self._frames.popleft()
            self._bytes -= len(frame)
            self._sent = max(0, self._sent - 1)
            self._forget(place)
        while self._trailed and self._trailed[0][0] <= durable_seq:
            self._forget(self._trailed.popleft()[1])
        self._refill()

    def rewind(self, durable_seq: int) -> None:
        """Begin to send again with the first frame after `durable_seq`."""
        self.acknowledge(durable_seq)
        self._sent = 0

    def next_unsent(self) -> bytes | None:
        """The next frame to send; None when all in memory are on their way."""
        return self._frames[self._sent][1] if self._sent < len(self._frames) else None

    def mark_sent(self) -> None:
        """`next_unsent` is on its way."""
        self._sent += 1

    def leave_on_disk(self, folder: Path | None) -> list[Path]:
        """At the end: leave what was not acknowledged in files; return them, in the order to take them in.

        Args:
            folder: Where they are looked for; None: the temporary folder.

        Raises:
            OSError: they could not be written.
        """
        left: list[Path] = []
        trail = self._trail
        volatile = [place for _, place in self._trailed if trail is None or trail.is_volatile(place)]
        if self._frames or volatile:
            last = Spool(_usable(folder), f"{stem_of(self._session)}-{LAST_PART}", self.hello)
            for _, frame, _ in self._frames:
                last.append(frame)
            for place in volatile:
                last.append(place.spool.read(place.at, place.length))
            left.append(last.leave())
        if trail is not None:
            left += trail.leave({place.spool for _, place in self._trailed if not trail.is_volatile(place)})
        self.close()
        return left

    def abandon(self) -> list[Path]:
        """Leave the trail as it is; return its files."""
        trail, self._trail = self._trail, None
        return trail.paths if trail is not None else []

    def close(self) -> None:
        """Forget everything. Idempotent."""
        self._frames.clear()
        self._trailed.clear()
        self._bytes = self._sent = 0
        if self._trail is not None:
            self._trail.close()
            self._trail = None

    def _forget(self, place: Place | None) -> None:
        if place is None:
            self.unkept_frames = max(0, self.unkept_frames - 1)
        elif self._trail is not None:
            self._trail.forget(place)

    def _refill(self) -> None:
        while self._trailed and self._bytes < self._memory_bytes // 2:
            seq, place = self._trailed.popleft()
            try:
                frame = place.spool.read(place.at, place.length)
            except OSError:
                self.lost_frames += 1
                self._forget(place)
                continue
            self._frames.append((seq, frame, place))
            self._bytes += place.length


def undelivered_line(frames: int, paths: list[Path]) -> str:
    """What a person is told of frames that were not delivered, and of the files they lie in."""
    if not frames:
        return "  trackside: the link did not end in time; some of the last values may be missing"
    if lies := " and ".join(named_shortly(paths)):
        return (
            f"  trackside: {frames} messages were not delivered (`trackside recover` takes them in); they lie in {lies}"
        )
    return f"  trackside: {frames} messages were not delivered, and could not be kept"


def named_shortly(paths: list[Path]) -> list[str]:
    """Files of one session for people: by name, those of a folder that holds several as `…-*`."""
    folders = dict.fromkeys(path.parent for path in paths)
    found = {folder: [path for path in paths if path.parent == folder] for folder in folders}
    return [
        str(inside[0]) if len(inside) == 1 else f"{folder / inside[0].name.rpartition('-')[0]}-*"
        for folder, inside in found.items()
    ]


def _usable(folder: Path | None) -> Path:
    """The first folder that can be had."""
    for candidate in _candidates(folder):
        try:
            candidate.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        return candidate
    return temporary_folder()


def _candidates(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    yield private_folder()
