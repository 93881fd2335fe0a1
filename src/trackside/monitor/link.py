"""The rank's (or agent's) end of the link: one session in one thread, exactly once by sequence."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trackside.errors import FrameTooLargeError, TracksideError
from trackside.monitor.offset import ClockOffset
from trackside.monitor.outbox import Outbox
from trackside.wire import codec, messages
from trackside.wire.address import ControllerAddress
from trackside.wire.ids import new_session

if TYPE_CHECKING:
    from trackside.monitor.connection import Connection

logger = logging.getLogger("trackside.monitor")

TURN_S = 0.06
"""Between two looks at what was logged: what a look costs is the same for one call and for a hundred."""
CLOSING_TURN_S = 0.005
CHORES_S = 0.25
HEARTBEAT_S = 1.0
SILENCE_S = 3.0
"""Without any word from the controller for so long, hello is said again on the same connection."""
CLOSING_SILENCE_S = 1.0
PATIENCE_S = 3.0
"""How long a hello may stay without answer before the connection is replaced; doubled each time, to the longest."""
LONGEST_PATIENCE_S = 30.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
MAX_BURST_BYTES = 8 * 1024 * 1024
MAX_QUEUE = 100_000
LEAVE_S = 0.9
"""What may be needed, on a busy machine, to write down what could not be delivered."""
DESCRIPTORS = 24
"""What the first connection takes, and some to spare: libzmq ends the whole process where it finds none for its poller."""
MORE_DESCRIPTORS = 4
"""What another one takes, which is as many as its predecessor gives back."""


class Feed(Protocol):
    """What a link asks of its owner, always on the link's thread."""

    def locate(self) -> ControllerAddress | None:
        """Where the controller is, None while that is not known; asked every turn until it answers. Blocks: never."""
        ...

    def collect(self, *, flush: bool) -> Iterable[messages.Upward]:
        """Messages that wait, in order; called every turn. `flush`: the link is closing."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether `collect` left something, since it takes no more in one turn."""
        ...

    def leave(self, folder: Path, next_seq: int) -> list[Path]:
        """At the end: put what was not collected into files, which continue with this sequence. Raises: OSError."""
        ...

    def kept(self, next_seq: int) -> None:
        """All that was collected so far outlives this process; the next message has this sequence."""
        ...

    def heartbeat(self) -> messages.Heartbeat | None:
        """The present totals; None sends no heartbeat."""
        ...

    def received(self, message: messages.Downward) -> None:
        """A message from the controller, Ack and Pong excepted."""
        ...

    def turned(self) -> None:
        """Called several times a second, for chores."""
        ...


class Link:
    """One session with the controller.

    `send` may be called from any thread and never waits. All else happens on the thread `trackside-send`.

    Args:
        role: rank or agent.
        identity: None for an agent.
        describe: Makes the host and process facts, on the link's thread.
        feed: See `Feed`.
        resources: False when this process must not be asked to sample its host.
        dropped: Called with a message that found no place, on the link's thread.
    """

    def __init__(
        self,
        role: messages.Role,
        identity: messages.Identity | None,
        describe: Callable[[], tuple[messages.HostFacts, messages.ProcessFacts]],
        feed: Feed,
        *,
        resources: bool = True,
        dropped: Callable[[messages.Upward], None] | None = None,
    ) -> None:
        self.session = new_session()
        self._began = time.monotonic()
        self.identity = identity
        self.welcome: messages.Welcome | None = None
        self.refused: str | None = None
        self.samples_host = False
        self.spared_ranks: frozenset[int] = frozenset()
        """Ranks that an agent does not sample."""
        self.dropped_messages = 0
        self._overflowed = self._admitted = 0
        self.undelivered: list[Path] = []
        """Files that hold what could not be delivered, in the order to take them in."""
        self.undelivered_frames = 0
        self.spool_folder: Path | None = None
        """Where these files go; None: a private folder in the temporary one."""
        self.offset = ClockOffset()
        self.connected = threading.Event()
        self._role, self._describe, self._feed = role, describe, feed
        self._resources = resources
        self._dropped = dropped
        self._facts: tuple[messages.HostFacts, messages.ProcessFacts] | None = None
        self._queue: deque[messages.Upward] = deque()
        self._farewell: messages.Upward | None = None
        """The last word, until it is said."""
        self._has_farewell = False
        self._outbox = Outbox(self.session)
        self._address: ControllerAddress | None = None
        self._context: Any = None
        self._connection: Connection | None = None
        self._host_index = 0
        self._is_welcome = False
        """Whether the controller has answered the last hello; before, it does not know where we go on."""
        self._heard = self._greeted_at = self._retry_at = 0.0
        self._pause_s, self._patience_s = FIRST_PAUSE_S, PATIENCE_S
        self._gave_up = False
        self._deadline: float | None = None
        self._sleep = threading.Lock()
        """Held while the thread may sleep; a bare lock costs a third of an event to wait for."""
        self._sleep.acquire()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trackside-send", daemon=True)

    def start(self) -> None:
        """Begin, in a daemon thread."""
        self._thread.start()

    def send(self, message: messages.Upward) -> None:
        """Queue a message. Threads: any. Blocks: never; when 100,000 wait, it is dropped and counted."""
        if len(self._queue) >= MAX_QUEUE or self._done.is_set():
            self.dropped_messages += 1
            self._overflowed += 1
            return
        self._queue.append(message)

    def give_up(self) -> None:
        """There is no controller and will be none: from now on only memory is filled. Threads: the link's."""
        self._gave_up = True
        self._outbox.close_trail()

    def greet_again(self) -> None:
        """Say hello once more: what it says of this process has changed. Threads: the link's."""
        if self._address is not None:
            self._outbox.open_trail(self._greeting())
        if self._connection is not None:
            self._greet(time.monotonic())

    @property
    def is_looking(self) -> bool:
        """Whether it is not known yet where the controller is."""
        return self._address is None and not self._gave_up and self._thread.is_alive()

    @property
    def pending_frames(self) -> int:
        """Frames that the controller has not made durable."""
        return len(self._outbox) + len(self._queue)

    @property
    def waiting_seqs(self) -> tuple[int, int]:
        """Of the oldest frame that the controller has not made durable, and of the next one there will be."""
        return self._outbox.oldest_seq, self._outbox.next_seq

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is sent, and what could not be delivered lies in files."""
        return self._done.is_set()

    def close(self, deadline_s: float, farewell: messages.Upward | None = None) -> bool:
        """Deliver what is left, `farewell` last, and end the thread.

        Idempotent. Blocks: up to `deadline_s` and `LEAVE_S`.

        Returns:
            Whether everything is on the controller's disk; otherwise `undelivered` names where it lies.
        """
        if self._deadline is None:
            self._farewell, self._has_farewell = farewell, farewell is not None
            self._deadline = time.monotonic() + deadline_s
            self._sleep.release()
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._done.wait(deadline_s + LEAVE_S)
        return self._done.is_set() and not self.undelivered_frames

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception:  # top of thread
            logger.debug("the link to the controller has ended; training goes on without it", exc_info=True)
            self.undelivered_frames = self.pending_frames
        finally:
            self._done.set()

    def _work(self) -> None:
        if self._role == "rank":
            self._outbox.open_trail(self._greeting())  # at once: a ring alone does not say whose it is
        heartbeat_at = chores_at = 0.0
        while not self._is_done():
            now = time.monotonic()
            self._receive()
            self._collect()
            if now >= chores_at or not self._is_welcome:
                self._keep_up(now)
            if now >= heartbeat_at and self._is_welcome:
                self._beat()
                heartbeat_at = now + HEARTBEAT_S
            self._push()
            if now >= chores_at:
                self._feed.turned()
                chores_at = now + (CHORES_S if self._deadline is None else 0.0)
            self._rest()
        self._leave()

    def _is_done(self) -> bool:
        if self._deadline is None:
            return False
        if time.monotonic() >= self._deadline:
            return True
        if self._farewell is not None or self._queue:
            return False
        return self.refused is not None or self._gave_up or not len(self._outbox)

    def _collect(self, *, is_last: bool = False) -> None:
        """Turn what waits into numbered frames."""
        closing = self._deadline is not None
        if closing and self._farewell is None and self._has_farewell:
            self._discard_late()
            return
        for message in self._feed.collect(flush=closing):
            self._add(message)
        while self._queue:
            self._add(self._queue.popleft())
        self._admit_overflow()
        if closing and self._farewell is not None and (is_last or not self._feed.is_behind):
            self._beat()  # the last totals, which a short run has said once at most
            self._add(self._farewell)
            self._farewell = None
        if self._outbox.has_trail and not self._outbox.unkept_frames:
            self._feed.kept(self._outbox.next_seq)

    def _admit_overflow(self) -> None:
        """Say how many messages `send` has dropped, once there is room again."""
        more = self._overflowed - self._admitted
        if more:
            self._admitted += more
            text = f"{more:,} messages found no place, for {MAX_QUEUE:,} waited already"
            self._add(messages.Notice(time=time.time(), about="messages dropped", text=text, count=more))

    def _discard_late(self) -> None:
        """What comes after the last word; a controller that has heard that may be gone, and nobody would take it."""
        self.dropped_messages += len(self._queue)
        self._queue.clear()

    def _add(self, message: messages.Upward) -> None:
        if isinstance(message, (messages.Heartbeat, messages.WorkerAlive, messages.Hello)):
            if self._is_welcome and self._connection is not None:
                self._connection.send(codec.encode(message))
            return
        if not self._outbox.hello:
            self._outbox.open_trail(self._greeting())  # whose run is not known yet
        seq = self._outbox.next_seq
        try:
            frame = codec.encode(message, seq)
        except (FrameTooLargeError, OverflowError, TypeError, ValueError) as error:
            logger.debug("trackside: a message was not sent: %s", error)
            self._drop(message)
            return
        if self._outbox.add(frame, seq):
            self._outbox.next_seq += 1
        else:
            self._drop(message)

    def _drop(self, message: messages.Upward) -> None:
        self.dropped_messages += 1
        if self._dropped is not None:
            self._dropped(message)

    def _greeting(self) -> bytes:
        if self._facts is None:
            self._facts = self._describe()
        host, process = self._facts
        hello = messages.Hello(
            session=self.session,
            role=self._role,
            run=self._address.run if self._address is not None else None,
            identity=self.identity,
            host=host,
            process=process,
            sent_at=time.time(),
            resources=self._resources,
            uptime_seconds=time.monotonic() - self._began,
            directory=self.welcome.directory if self.welcome is not None else None,
        )
        self._outbox.hello = codec.encode(hello)
        return self._outbox.hello

    # --- connecting --------------------------------------------------------------------------------------------------

    def _keep_up(self, now: float) -> None:
        """Connect, say hello, and do both again when the controller is silent."""
        if self._address is None and not self._gave_up:
            self._address = self._feed.locate()
            if self._address is not None:
                self._outbox.open_trail(self._greeting())
        if self._address is None or self.refused is not None:
            return
        if self._connection is None:
            if now >= self._retry_at:
                self._connect(self._address, now)
        elif self._connection.is_broken():
            self._replace(now, self._pause_s)
            self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        elif not self._is_welcome:
            if now - self._greeted_at > self._patience_s:
                self._patience_s = min(LONGEST_PATIENCE_S, self._patience_s * 2)
                self._replace(now, 0.0)
        elif now - self._heard > (SILENCE_S if self._deadline is None else CLOSING_SILENCE_S):
            self._greet(now)

    def _connect(self, address: ControllerAddress, now: float) -> None:
        host = address.hosts[self._host_index % len(address.hosts)]
        try:
            _need_descriptors(DESCRIPTORS if self._context is None else MORE_DESCRIPTORS)
            from trackside.monitor.connection import Connection, make_context

            if self._context is None:
                self._context = make_context()
            self._connection = Connection(self._context, address, host, self.session)
        except (ImportError, OSError) as error:  # no descriptor is left, no such host, no route
            logger.debug("trackside: no connection to %s: %s", host, error)
            self._host_index += 1
            self._retry_at = now + LONGEST_PAUSE_S
            return
        self._greet(now)

    def _greet(self, now: float) -> None:
        self._greeted_at, self._is_welcome = now, False
        if self._connection is not None:
            self._connection.send(self._greeting())

    def _replace(self, now: float, pause_s: float) -> None:
        """Drop the connection; the next one tries another host unless this one has ever answered."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._is_welcome = None, False
        self._retry_at = now + pause_s
        if self.welcome is None:
            self._host_index += 1

    # --- sending and hearing -----------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if not self._is_welcome or self._connection is None:
            return
        beat = self._feed.heartbeat()
        if beat is not None:
            self._connection.send(codec.encode(beat))

    def _push(self) -> None:
        """Send frames that are not on their way, as many as the socket takes."""
        if not self._is_welcome or self._connection is None:
            return
        sent = 0
        while sent < MAX_BURST_BYTES:
            frame = self._outbox.next_unsent()
            if frame is None or not self._connection.send(frame):
                return
            self._outbox.mark_sent()
            sent += len(frame)

    def _rest(self) -> None:
        """Wait for the next turn. A plain sleep costs less than a poll that every acknowledgement wakes.

        Turns begin at the same instants in all ranks: a step is told by all at once, and what a turn takes from a training
        that waits for its slowest rank, it takes once.
        """
        if self._feed.is_behind:
            return
        if self._deadline is None:
            self._sleep.acquire(timeout=TURN_S - time.time() % TURN_S)
        elif self._connection is not None:
            self._connection.wait(CLOSING_TURN_S)
        else:
            time.sleep(CLOSING_TURN_S)

    def _receive(self) -> None:
        while self._connection is not None and (frame := self._connection.receive()) is not None:
            self._heard = time.monotonic()
            try:
                message: Any = codec.decode_body(codec.open_envelope(frame))
            except TracksideError as error:
                message = messages.Refused(reason=str(error))
            if message is not None:
                self._take(message)

    def _take(self, message: messages.Downward) -> None:
        if isinstance(message, messages.Ack):
            self._outbox.acknowledge(message.durable_seq)
            return
        if isinstance(message, messages.Pong):
            self.offset.take(message.sent_at, message.received_at, time.time())
            return
        if isinstance(message, messages.Welcome):
            is_told = self.welcome is not None and self.welcome.directory == message.directory
            self.welcome, self.samples_host, self._is_welcome = message, message.sample_host, True
            if not is_told:
                self._outbox.greet(self._greeting())
            self._pause_s, self._patience_s = FIRST_PAUSE_S, PATIENCE_S
            self._outbox.rewind(message.durable_seq)
            self.connected.set()
        elif isinstance(message, messages.Appoint):
            self.samples_host, self.spared_ranks = message.sample_host, frozenset(message.spared)
        elif isinstance(message, messages.Refused):
            if self.refused is not None:
                return
            self.refused = message.reason
        self._feed.received(message)

    def _leave(self) -> None:
        self._collect(is_last=True)
        self.undelivered_frames, next_seq = len(self._outbox), self._outbox.next_seq
        silent = time.monotonic() - self._heard > SILENCE_S
        try:
            # A controller that answers and yet makes nothing durable has a disk that hangs: keep off it.
            self.undelivered = self._outbox.leave_on_disk(self.spool_folder if silent else None)
            if self.undelivered:
                self.undelivered += self._feed.leave(self.undelivered[0].parent, next_seq)
        except OSError as error:
            logger.debug("trackside: what was not delivered stays where it is: %s", error)
            self.undelivered = self._outbox.abandon()
        self._outbox.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._context is not None:
            self._context.destroy(linger=0)


def _need_descriptors(count: int) -> None:
    """Raises: OSError: this process cannot have so many more."""
    taken: list[int] = []
    try:
        while len(taken) < count:
            taken += os.pipe()
    finally:
        for descriptor in taken:
            os.close(descriptor)
