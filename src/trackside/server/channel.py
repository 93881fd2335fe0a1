"""One path of the run as the stream's clients see it: who listens, what was sent lately, the points not sent yet."""

from collections import deque
from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.run.cohort import CohortWindow
from trackside.server.subscriber import Subscriber
from trackside.wire.columns import PointBatch
from trackside.wire.documents import ResourceRecord
from trackside.wire.ids import ROOT_PATH

RING_BYTES = 4 * 1024 * 1024
RING_FRAMES = 4096
LARGE_BYTES = 262_144
KEPT_BYTES_PER_S = 524_288
LONGEST_KEPT_S = 5.0


class KeptState(msgspec.Struct, frozen=True):
    """The frames of a fresh state."""

    number: int
    """Of the last event before it."""
    frames: list[bytes]
    size_bytes: int
    made_at: float


class Channel:
    """The state of one path.

    Args:
        path: root, a host or a rank.
        number: of the last event sent anywhere; the ring knows all that come after it.
        window: the path's points.
        is_fed: whether somebody else puts them in.
    """

    def __init__(self, path: str, number: int, window: CohortWindow, *, is_fed: bool) -> None:
        self.path = path
        self.window = window
        self._is_fed = is_fed
        self.subscribers: set[Subscriber] = set()
        self.idle_since: float | None = None
        """When its last client left."""
        self.resources: list[ResourceRecord] = []
        self.ranks_waiting = self.points_waiting = False
        """Whether there is something of the kind to send, when its time has come."""
        self.ranks_due = self.points_due = 0.0
        self._state: KeptState | None = None
        self._members: npt.NDArray[np.bool_] = np.zeros(1, np.bool_)
        self._is_root = path == ROOT_PATH
        self._ring: deque[tuple[int, bytes]] = deque()
        self._ring_bytes = 0
        self._whole_from = number

    @property
    def is_watched(self) -> bool:
        """Whether it has clients, or had some a moment ago who may come back."""
        return bool(self.subscribers) or self.idle_since is not None

    def set_members(self, ranks: Iterable[int]) -> None:
        """Say which ranks belong to the path."""
        chosen = np.array(sorted(ranks), np.int64)
        self._members = np.zeros(int(chosen[-1]) + 1 if len(chosen) else 1, np.bool_)
        self._members[chosen] = True

    def add(self, batch: PointBatch) -> None:
        """Gather the points of the path's ranks."""
        if not self._is_root:
            known = batch.rank < len(self._members)
            mine = known & self._members[np.where(known, batch.rank, 0)]
            batch = batch if mine.all() else select(batch, mine)
        if not len(batch):
            return
        if not self._is_fed:
            self.window.add(batch)
        self.points_waiting = True

    def send(self, number: int, frame: bytes) -> int:
        """Send one frame to all clients and keep it for those who come back; return how many fell behind."""
        self._ring.append((number, frame))
        self._ring_bytes += len(frame)
        while self._ring_bytes > RING_BYTES or len(self._ring) > RING_FRAMES:
            self._whole_from, gone = self._ring.popleft()
            self._ring_bytes -= len(gone)
        return sum(not subscriber.put(frame) for subscriber in self.subscribers)

    def since(self, number: int) -> list[bytes] | None:
        """Frames after an event, or None when some of them are not kept any more."""
        if number < self._whole_from:
            return None
        return [frame for at, frame in self._ring if at > number]

    def keep_state(self, number: int, frames: list[bytes], mono: float) -> None:
        """Keep the frames of a fresh state."""
        self._state = KeptState(number, frames, sum(map(len, frames)), mono)

    def kept_state(self, number: int | None, mono: float) -> list[bytes] | None:
        """Frames that make up the present state, if it need not be made anew.

        A large one is used again for a while, with what was sent since: making it for every client that comes would cost
        more than all else.

        Args:
            number: of the last event; None: more is about to be sent.
            mono: monotonic seconds.
        """
        state = self._state
        if state is None:
            return None
        if state.number == number:
            return state.frames
        if state.size_bytes < LARGE_BYTES or mono - state.made_at > min(
            LONGEST_KEPT_S, state.size_bytes / KEPT_BYTES_PER_S
        ):
            return None
        since = self.since(state.number)
        return None if since is None else [*state.frames, *since]

    def skip(self, number: int) -> None:
        """Somebody comes after a time in which nobody was there: drop what waits to be sent."""
        self.window.take_changes()
        self.resources.clear()
        self.ranks_waiting = self.points_waiting = False
        self.forget(number)

    def forget(self, number: int) -> None:
        """Drop the ring and the state: nobody can resume from before `number`."""
        self._state = None
        self._ring.clear()
        self._ring_bytes = 0
        self._whole_from = number


def select(batch: PointBatch, rows: npt.NDArray[np.bool_]) -> PointBatch:
    """The rows of a batch where `rows` is true."""
    return PointBatch(
        metric=batch.metric[rows],
        rank=batch.rank[rows],
        generation=batch.generation[rows],
        epoch=batch.epoch[rows],
        step=batch.step[rows],
        time=batch.time[rows],
        value=batch.value[rows],
    )
