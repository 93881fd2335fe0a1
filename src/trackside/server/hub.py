"""Fan-out of a run to the clients of its event stream.

Changes are gathered and sent at most ten times a second for each path; the first one after a quiet moment goes out at once.
What is sent is encoded once for all clients of a path. A client is registered first and then gets the whole state, so
nothing falls between; one that cannot keep up gets the whole state again instead of an ever longer queue.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from trackside._version import __version__
from trackside.run.cohort import Array, CohortWindow, update_of
from trackside.server import sse
from trackside.server.channel import Channel
from trackside.server.encoding import encode
from trackside.server.subscriber import Subscriber
from trackside.sinks.protocol import RunSource
from trackside.wire.codec import PROTOCOL
from trackside.wire.columns import PointBatch, concatenate
from trackside.wire.documents import (
    EpochRecord,
    EventRecord,
    PointsEvent,
    ResourceRecord,
    StreamHello,
    StreamResources,
)
from trackside.wire.ids import ROOT_PATH, is_below
from trackside.wire.messages import Reduction

log = logging.getLogger("trackside.server")

TICK_S = 0.1
IDLE_S = 1.0
"""The same while nobody looks: what a page needs is made when one comes."""
SLOT_BYTES_PER_S = 524_288
"""What one kind of whole-state event may send; a larger document is sent less often."""
LONGEST_SLOT_S = 5.0
KEEP_CHANNEL_S = 60.0
"""How long a path without clients can still be resumed."""
SEED_VALUES = 200_000
"""Latest values that a newly watched path begins with."""
RECENT_STEPS = 200
"""Latest steps of each metric in a fresh state; the series answers hold all."""
RECENT_RESOURCES = 2000
SCOPED_STEPS = 2048
"""Steps of each metric that a path below the root keeps at hand."""
ALL_ROWS, MOST_ROWS, FEWEST_ROWS = 1_200_000, 60_000, 4_096
"""What all such paths share, and what one of them gets of it: many pages on many ranks must not be gigabytes."""


class Hub:
    """All clients of one run's stream.

    Args:
        source: of the run; must be up to date when a `push_` is called.
        boot: identity of this start of the server; ids of another one cannot be resumed.
        wall: UTC epoch seconds.
        root: the points of the whole job, where they are gathered already before `push_window` is called.

    Threads: the event loop's only; every `push_` returns at once.
    """

    def __init__(
        self,
        source: RunSource,
        boot: str,
        wall: Callable[[], float] = time.time,
        root: CohortWindow | None = None,
    ) -> None:
        self._source = source
        self._boot = boot
        self._wall = wall
        self._number = 0
        self._channels = {ROOT_PATH: Channel(ROOT_PATH, 0, root or CohortWindow(), is_fed=root is not None)}
        self._names: dict[int, tuple[str, Reduction]] = {}
        self._seed: deque[PointBatch] = deque()
        self._seed_values = 0
        self._points: list[PointBatch] = []
        self._epochs: dict[int, EpochRecord] = {}
        self._events: dict[int, EventRecord] = {}
        self._run_changed = self._ranks_changed = False
        self._run_due = 0.0
        self._run_sent = b""
        self._complete = self._completed = False
        self._closed = False
        self._members_changed = False
        self._last_tick = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._resets = self._failures = 0
        self.clients_refused = 0
        """Streams that there were too many of already."""

    # --- what happens to the run --------------------------------------------------------------------------------------

    def define_metric(self, metric: int, name: str, reduction: Reduction) -> None:
        """A metric exists."""
        self._names[metric] = (name, reduction)

    def define_rank(self) -> None:
        """A rank's place became known or changed."""
        self._members_changed = True

    def push_window(self, batch: PointBatch) -> None:
        """New values."""
        self._points.append(batch)
        self._wake()

    def push_epoch(self, record: EpochRecord) -> None:
        """An epoch is new or amended."""
        self._epochs[record.epoch] = record
        self._wake()

    def push_event(self, record: EventRecord) -> None:
        """An event is new or amended."""
        self._events[record.id] = record
        self._wake()

    def push_resources(self, record: ResourceRecord) -> None:
        """A resource sample."""
        for channel in self._channels.values():
            if channel.is_watched and is_below(record.path, channel.path):
                channel.resources.append(record)
        self._wake()

    def push_run(self) -> None:
        """The run document or some rank entries changed."""
        self._run_changed = self._ranks_changed = True
        self._wake()

    def complete(self) -> None:
        """The run is over: send what waits, then `complete`. The streams stay open."""
        self._run_changed, self._ranks_changed, self._complete = True, True, True
        self._run_due = 0.0
        for channel in self._channels.values():
            channel.ranks_due = channel.points_due = 0.0
        self._tick()

    def refresh(self) -> None:
        """Everything may have changed: all clients get the whole state again."""
        for channel in self._channels.values():
            channel.forget(self._number)
            for subscriber in channel.subscribers:
                subscriber.mark_stale()

    def close(self) -> None:
        """The server stops: end every stream after what waits for it."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for channel in self._channels.values():
            for subscriber in channel.subscribers:
                subscriber.close()

    # --- clients ------------------------------------------------------------------------------------------------------

    @property
    def client_count(self) -> int:
        """Open streams."""
        return sum(len(channel.subscribers) for channel in self._channels.values())

    def counters(self) -> dict[str, int]:
        """For `/healthz`."""
        return {
            "stream_clients": self.client_count,
            "stream_clients_refused": self.clients_refused,
            "stream_clients_reset": self._resets,
            "stream_failures": self._failures,
        }

    def subscribe(self, path: str, last_event_id: str | None) -> Subscriber:
        """Register a client, with what it missed since `last_event_id`, or with the whole state."""
        self._gather_points()
        subscriber = Subscriber()
        channel = self._channels.get(path)
        missed = None
        if channel is None:
            channel = self._channels[path] = self._make_channel(path)
        else:
            number = sse.parse_id(last_event_id, self._boot)
            missed = None if number is None or number > self._number else channel.since(number)
        if not channel.is_watched:  # nothing was sent, and nobody can go on from what was sent before
            self._number += 1
            channel.skip(self._number)
            missed = None
        channel.subscribers.add(subscriber)
        channel.idle_since = None
        if missed is None:
            subscriber.put_all(self._snapshot(channel))
        else:
            subscriber.put_all([self._hello(path, resumed=True), *missed])
        if self._closed:
            subscriber.close()
        return subscriber

    def unsubscribe(self, path: str, subscriber: Subscriber) -> None:
        """A client has gone; idempotent."""
        channel = self._channels.get(path)
        if channel is None or subscriber not in channel.subscribers:
            return
        channel.subscribers.discard(subscriber)
        if not channel.subscribers:
            channel.idle_since = time.monotonic()

    def renew(self, path: str, subscriber: Subscriber) -> None:
        """Give a client that fell behind the whole state."""
        subscriber.stale = False
        channel = self._channels.get(path)
        if channel is not None:
            subscriber.put_all(self._snapshot(channel))

    def _make_channel(self, path: str) -> Channel:
        rows = max(FEWEST_ROWS, min(MOST_ROWS, ALL_ROWS // (len(self._channels) + 1)))
        channel = Channel(path, self._number, CohortWindow(steps=SCOPED_STEPS, rows=rows), is_fed=False)
        channel.set_members(entry.rank for entry in self._source.ranks(path))
        for batch in self._seed:
            channel.add(batch)
        channel.skip(self._number)
        return channel

    # --- the whole state ----------------------------------------------------------------------------------------------

    def _hello(self, path: str, *, resumed: bool) -> bytes:
        hello = StreamHello(
            protocol=PROTOCOL,
            version=__version__,
            run=self._source.run().id,
            path=path,
            server_time=self._wall(),
            resumed=resumed,
        )
        return sse.plain_frame("hello", encode(hello))

    def _snapshot(self, channel: Channel) -> list[bytes]:
        """Frames of the whole state as it is now, shared by all who ask before it changes.

        Only the last one has an id: a client that got a part of it does not resume behind it.
        """
        self._gather_points()
        pending = self._run_changed or self._ranks_changed or channel.points_waiting or self._epochs or self._events
        kept = channel.kept_state(None if pending else self._number, time.monotonic())
        if kept is not None:
            return [self._hello(channel.path, resumed=False), *kept]
        source, path = self._source, channel.path
        frames = [sse.plain_frame("run", encode(source.run())), sse.plain_frame("ranks", encode(source.ranks(path)))]
        frames.extend(sse.plain_frame("epoch", encode(record)) for record in source.epochs())
        frames.extend(sse.plain_frame("event", encode(record)) for record in source.events())
        samples = source.resources(path)[-RECENT_RESOURCES:]
        if samples:
            frames.append(sse.plain_frame("resources", encode(StreamResources(records=samples))))
        frames.append(self._frame("points", self._points_text(channel.window.recent(RECENT_STEPS)), self._number))
        if self._completed:
            frames.append(sse.plain_frame("complete", encode(source.run())))
        channel.keep_state(self._number, frames, time.monotonic())
        return [self._hello(path, resumed=False), *frames]

    def _points_text(self, rows: dict[int, Array]) -> bytes:
        named = ((self._names.get(metric), changed) for metric, changed in rows.items() if len(changed))
        return encode(PointsEvent(metrics={n[0]: update_of(changed, n[1]) for n, changed in named if n is not None}))

    # --- sending ------------------------------------------------------------------------------------------------------

    def _wake(self, at: float = 0.0) -> None:
        """Send soon: a tick after the last one, and not before `at`."""
        if self._closed:
            return
        at = max(self._last_tick + (TICK_S if self._is_watched else IDLE_S), at)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._tick)

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        now = self._last_tick = asyncio.get_running_loop().time()
        try:
            self._send(now)
        except Exception:  # noqa: BLE001 - top of task
            self._failures += 1
            log.exception("the event stream failed to send")

    @property
    def _is_watched(self) -> bool:
        return any(channel.is_watched for channel in self._channels.values())

    def _send(self, now: float) -> None:
        self._drop_idle_channels()
        self._update_members()
        if not self._is_watched:
            self._gather_points()
            self._epochs, self._events, self._completed = {}, {}, self._complete
            return
        later = [self._send_run(now)]
        self._gather_points()
        records = [("epoch", encode(record)) for record in self._epochs.values()]
        records += [("event", encode(record)) for record in self._events.values()]
        self._epochs, self._events = {}, {}
        ranks_changed, self._ranks_changed = self._ranks_changed, False
        for channel in self._channels.values():
            channel.ranks_waiting |= ranks_changed
            if channel.is_watched:
                later += [self._send_ranks(channel, now), self._send_points(channel, now)]
                self._send_resources(channel)
        for event, text in records:
            self._send_to_all(event, text)
        if self._complete and not self._completed:
            self._completed = True
            self._send_to_all("complete", encode(self._source.run()))
        due = [at for at in later if at is not None]
        if due:
            self._wake(min(due))

    def _gather_points(self) -> None:
        """Put the values that came into the windows of all paths, and aside for paths that are watched later."""
        if not self._points:
            return
        points = concatenate(self._points)
        self._points = []
        for channel in self._channels.values():
            channel.add(points)
        self._seed.append(points)
        self._seed_values += len(points)
        while self._seed_values > SEED_VALUES and len(self._seed) > 1:
            self._seed_values -= len(self._seed.popleft())

    def _send_run(self, now: float) -> float | None:
        if not self._run_changed:
            return None
        if now < self._run_due:
            return self._run_due
        self._run_changed = False
        text = encode(self._source.run())
        if text != self._run_sent:
            self._run_sent = text
            self._run_due = now + pause_s(text)
            self._send_to_all("run", text)
        return None

    def _send_ranks(self, channel: Channel, now: float) -> float | None:
        if not channel.ranks_waiting:
            return None
        if now < channel.ranks_due:
            return channel.ranks_due
        channel.ranks_waiting = False
        text = encode(self._source.ranks(channel.path))
        channel.ranks_due = now + pause_s(text)
        self._send_to(channel, "ranks", text)
        return None

    def _send_points(self, channel: Channel, now: float) -> float | None:
        if not channel.points_waiting:
            return None
        if now < channel.points_due:
            return channel.points_due
        channel.points_waiting = False
        text = self._points_text(channel.window.take_changes())
        channel.points_due = now + pause_s(text)
        self._send_to(channel, "points", text)
        return None

    def _send_resources(self, channel: Channel) -> None:
        records, channel.resources = channel.resources, []
        if records:
            self._send_to(channel, "resources", encode(StreamResources(records=records)))

    def _send_to_all(self, event: str, text: bytes) -> None:
        self._number += 1
        frame = self._frame(event, text, self._number)
        for channel in self._channels.values():
            self._resets += channel.send(self._number, frame)

    def _send_to(self, channel: Channel, event: str, text: bytes) -> None:
        self._number += 1
        self._resets += channel.send(self._number, self._frame(event, text, self._number))

    def _frame(self, event: str, text: bytes, number: int) -> bytes:
        return sse.frame(event, sse.format_id(self._boot, number), text)

    # --- paths --------------------------------------------------------------------------------------------------------

    def _update_members(self) -> None:
        if not self._members_changed:
            return
        self._members_changed = False
        for path, channel in self._channels.items():
            if path != ROOT_PATH:
                channel.set_members(entry.rank for entry in self._source.ranks(path))

    def _drop_idle_channels(self) -> None:
        before = time.monotonic() - KEEP_CHANNEL_S
        for path, channel in list(self._channels.items()):
            if channel.idle_since is None or channel.idle_since > before:
                continue
            if path == ROOT_PATH:
                channel.idle_since = None
            else:
                del self._channels[path]


def pause_s(text: bytes) -> float:
    """How long to wait after sending a text before the next one of its kind."""
    return min(LONGEST_SLOT_S, max(TICK_S, len(text) / SLOT_BYTES_PER_S))
