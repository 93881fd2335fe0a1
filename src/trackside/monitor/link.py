"""The rank's (or agent's) end of the link: one DEALER socket in one thread, and exactly-once by sequence."""

import logging
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
    import zmq

logger = logging.getLogger("trackside.monitor")

TURN_SECONDS = 0.025
HEARTBEAT_SECONDS = 1.0
SILENCE_SECONDS = 3.0
"""Without any word from the controller for so long, say hello again; then try its next address."""
SEND_HIGH_WATER = 1000
MAX_BURST = 64


class Feed(Protocol):
    """What a link asks of its owner, always on the link's thread."""

    def locate(self) -> ControllerAddress | None:
        """Where the controller is. Blocks: as long as it takes to find or start one."""
        ...

    def collect(self, *, flush: bool) -> Iterable[messages.Upward]:
        """Messages that wait, in order; called every turn."""
        ...

    def heartbeat(self) -> messages.Heartbeat | None:
        """The present totals; None sends no heartbeat."""
        ...

    def received(self, message: messages.Downward) -> None:
        """A message from the controller, Ack and Pong excepted."""
        ...

    def turned(self) -> None:
        """Called about twice a second, for chores."""
        ...


class Link:
    """One session with the controller.

    `send` may be called from any thread and never waits. All else happens on the thread `trackside-send`.

    Args:
        role: rank or agent.
        identity: None for an agent.
        describe: makes the host and process facts, on the link's thread.
        feed: see `Feed`.
    """

    def __init__(
        self,
        role: messages.Role,
        identity: messages.Identity | None,
        describe: Callable[[], tuple[messages.HostFacts, messages.ProcessFacts]],
        feed: Feed,
        *,
        resources: bool = True,
    ) -> None:
        self.session = new_session()
        self.welcome: messages.Welcome | None = None
        self.refused: str | None = None
        self.samples_host = False
        self.dropped_messages = 0
        self.undelivered: Path | None = None
        self.undelivered_frames = 0
        self.offset = ClockOffset()
        self._role, self._identity, self._describe, self._feed = role, identity, describe, feed
        self._resources = resources
        self._queue: deque[messages.Upward] = deque(maxlen=100_000)
        self._outbox = Outbox(self.session)
        self._address: ControllerAddress | None = None
        self._host_index = 0
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._heard = 0.0
        self._greeted_at = 0.0
        self._is_greeted = False
        """Whether the controller has answered the last hello; until then it does not know where we are to go on."""
        self._closing: float | None = None
        self._wake = threading.Event()
        self._done = threading.Event()
        self.connected = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trackside-send", daemon=True)

    def start(self) -> None:
        """Begin, in a daemon thread."""
        self._thread.start()

    def send(self, message: messages.Upward) -> None:
        """Queue a message. Threads: any. Blocks: never."""
        self._queue.append(message)

    @property
    def pending_frames(self) -> int:
        """Frames that the controller has not made durable."""
        return len(self._outbox) + len(self._queue)

    def close(self, deadline_s: float) -> bool:
        """Deliver what is left and end the thread. Idempotent. Blocks: up to `deadline_s` and a little.

        Returns whether everything is on the controller's disk; otherwise `undelivered` names the file it lies in.
        """
        if self._closing is None:
            self._closing = time.monotonic() + deadline_s
        self._wake.set()
        self._done.wait(deadline_s + 1.0)
        return self._done.is_set() and not self.undelivered_frames

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception:  # top of thread
            logger.exception("the link to the controller has ended")
        finally:
            self._done.set()

    def _work(self) -> None:
        self._greeting()
        self._address = self._feed.locate()
        heartbeat_at = chores_at = 0.0
        while not self._is_done():
            now = time.monotonic()
            self._collect(flush=self._closing is not None)
            if self._address is not None:
                self._keep_up(now)
                if now >= heartbeat_at and self.welcome is not None:
                    self._beat()
                    heartbeat_at = now + HEARTBEAT_SECONDS
                self._push()
            if now >= chores_at:
                self._feed.turned()
                chores_at = now + 0.5
            self._listen()
        self._leave()

    def _is_done(self) -> bool:
        if self._closing is None:
            return False
        if time.monotonic() >= self._closing or self.refused is not None:
            return True
        if self._address is None:
            return True
        return not len(self._outbox) and not self._queue

    def _greeting(self) -> bytes:
        host, process = self._describe()
        hello = messages.Hello(
            session=self.session,
            role=self._role,
            run=self._address.run if self._address else None,
            identity=self._identity,
            host=host,
            process=process,
            sent_at=time.time(),
            resources=self._resources,
        )
        self._outbox.hello = codec.encode(hello)
        return self._outbox.hello

    def _collect(self, *, flush: bool) -> None:
        """Turn what waits into numbered frames."""
        for message in self._feed.collect(flush=flush):
            self._add(message)
        while self._queue:
            self._add(self._queue.popleft())

    def _add(self, message: messages.Upward) -> None:
        if isinstance(message, (messages.Heartbeat, messages.WorkerAlive, messages.Hello)):
            if self._socket is not None and self.welcome is not None:
                self._send_now(codec.encode(message))
            return
        seq = self._outbox.next_seq
        try:
            frame = codec.encode(message, seq)
        except (FrameTooLargeError, OverflowError, TypeError, ValueError) as error:
            self.dropped_messages += 1
            logger.warning("trackside: a message was not sent: %s", error)
            return
        self._outbox.next_seq += 1
        self._outbox.add(frame, seq)

    # --- connecting --------------------------------------------------------------------------------------------------

    def _keep_up(self, now: float) -> None:
        """Connect, say hello, and do both again when the controller is silent."""
        if self.refused is not None:
            return
        if self._socket is None:
            self._connect()
            self._greet(now)
        elif self._saw_handshake():
            self._greet(now)
        elif now - max(self._heard, self._greeted_at) > SILENCE_SECONDS:
            if self.welcome is None and self._address is not None and len(self._address.hosts) > 1:
                self._host_index = (self._host_index + 1) % len(self._address.hosts)
                self._disconnect()
                self._connect()
            self._greet(now)

    def _connect(self) -> None:
        import zmq

        address = self._address
        if address is None:
            return
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, self.session)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        socket.setsockopt(zmq.IPV6, 1)
        socket.setsockopt(zmq.HEARTBEAT_IVL, 5000)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 20000)
        socket.curve_serverkey = address.server_key.encode()
        socket.curve_publickey = address.client_public.encode()
        socket.curve_secretkey = address.client_secret.encode()
        self._monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        host = address.hosts[self._host_index]
        socket.connect(f"tcp://{f'[{host}]' if ':' in host else host}:{address.port}")
        self._socket = socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.disable_monitor()
            self._socket.close(linger=0)
        self._socket = self._monitor = None

    def _saw_handshake(self) -> bool:
        import zmq

        found = False
        while self._monitor is not None:
            try:
                self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:
                break
            found = True
        return found

    def _greet(self, now: float) -> None:
        self._greeted_at = now
        self._is_greeted = False
        self._send_now(self._greeting())

    # --- sending and hearing -----------------------------------------------------------------------------------------

    def _beat(self) -> None:
        beat = self._feed.heartbeat()
        if beat is not None:
            self._send_now(codec.encode(beat))

    def _push(self) -> None:
        """Send frames that are not on their way, as many as the socket takes."""
        if not self._is_greeted:
            return
        for _ in range(MAX_BURST):
            frame = self._outbox.next_unsent()
            if frame is None or not self._send_now(frame):
                return
            self._outbox.mark_sent()

    def _send_now(self, frame: bytes) -> bool:
        import zmq

        if self._socket is None:
            return False
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def _listen(self) -> None:
        """Wait one turn for the controller's messages."""
        wait_s = TURN_SECONDS if self._closing is None else 0.002
        if self._socket is None:
            self._wake.wait(wait_s)
            return
        if self._closing is None:
            # A plain sleep on an event costs less than a poll that every acknowledgement wakes.
            self._wake.wait(wait_s)
        else:
            self._socket.poll(5)
        self._receive()

    def _receive(self) -> None:
        import zmq

        while self._socket is not None:
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.ZMQError:
                return
            self._heard = time.monotonic()
            try:
                message: Any = codec.decode_body(codec.open_envelope(frame))
            except TracksideError as error:
                self.refused = str(error)
                return
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
            self.welcome, self.samples_host = message, message.sample_host
            self._is_greeted = True
            self._outbox.rewind(message.durable_seq)
            self.connected.set()
        elif isinstance(message, messages.Appoint):
            self.samples_host = message.sample_host
        elif isinstance(message, messages.Refused):
            self.refused = message.reason
        self._feed.received(message)

    def keep_spool_in(self, folder: Path) -> None:
        """Where frames go that memory cannot hold. Call on the link's thread."""
        self._outbox.folder = folder

    def _leave(self) -> None:
        self.undelivered_frames = len(self._outbox)
        self.undelivered = self._outbox.leave_on_disk()
        if self.undelivered is None:
            self._outbox.close()
        self._disconnect()
