"""The controller's end of every rank's link: one ROUTER socket inside the event loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

import zmq

from trackside.errors import PortTakenError
from trackside.ingest.gatekeeper import Gatekeeper
from trackside.ingest.handshakes import Handshakes
from trackside.ingest.keys import LinkKeys
from trackside.ingest.reader import FrameReader
from trackside.wire import codec, messages
from trackside.wire.peers import notice_dead_peers

REST_S = 0.025
"""Between two drains, unless more is waiting: what comes meanwhile is handed on together, which costs far less."""
DRAIN_FRAMES = 512
DRAIN_S = 0.02
"""Longest the loop belongs to one drain; then others have their turn."""
SHARE_BYTES = 1_048_576
"""Bytes one session may have read in one drain while others wait; the rest of it waits for the next drain."""
MOST_UNREAD = 64
"""Messages of one session that wait unread in ZeroMQ; the rest waits with its sender, who has memory and a disk for it."""
WAITING_BYTES = 33_554_432
"""Bytes that may wait so; beyond, the socket is not read, and ZeroMQ holds the senders back."""


class Listener:
    """Reads the link's frames into a `FrameReader` and hands on what came out, one call a drain.

    Args:
        keys: of this run.
        reader: gets the frames.
        drained: called after each drain that read something; takes the reader's inputs.
        clock: UTC epoch seconds.

    Threads: the event loop's only.
    """

    def __init__(
        self, keys: LinkKeys, reader: FrameReader, drained: Callable[[], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._reader = reader
        self._drained = drained
        self._clock = clock
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._gatekeeper = Gatekeeper(self._context, keys.client_public, reader.refused_peer)
        self._socket = _router(self._context, keys)
        self._handshakes = Handshakes(self._socket, reader.failed_handshake)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._waiting_bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again: asyncio.Handle | None = None
        self._drained_at = 0.0
        self._address_refused: str | None = None
        self.port = 0

    def bind(self, host: str, port: int = 0) -> int:
        """Listen on one address and return the port.

        Args:
            host: an IP address of this machine; `0.0.0.0` for all.
            port: 0 for any free one.

        Raises:
            PortTakenError: the address cannot be had.
        """
        try:
            self._socket.bind(f"tcp://{f'[{host}]' if ':' in host else host}:{port or '*'}")
        except zmq.ZMQError as error:
            raise PortTakenError(f"the link cannot listen on {host}:{port or 'any port'}: {error}") from error
        endpoint = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        self.port = int(bytes(endpoint).rstrip(b"\0").rpartition(b":")[2])
        return self.port

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to read."""
        self._loop = loop
        loop.add_reader(self._gatekeeper.fd, self._gatekeeper.answer)
        loop.add_reader(self._handshakes.fd, self._handshakes.read)
        loop.add_reader(self._fd, self._schedule)
        self._gatekeeper.answer()
        self._handshakes.read()
        self._schedule()

    def send(self, session: bytes, message: messages.Downward) -> None:
        """Send one message, or count that it could not be. Blocks: never."""
        try:
            self._socket.send(session, zmq.NOBLOCK | zmq.SNDMORE)
            self._socket.send(codec.encode(message), zmq.NOBLOCK)
        except zmq.ZMQError:
            self._reader.counters.replies_undelivered += 1

    def nudge(self) -> None:
        """Look whether something waits. The socket's file is edge-triggered and sending may swallow an edge."""
        if self._loop is not None:
            self._handshakes.read()
        if self._waiting or int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._schedule()

    def close(self, linger_s: float = 0.5) -> None:
        """Stop reading and free the port. Blocks: up to `linger_s`, for answers under way."""
        if self._loop is not None:
            self._loop.remove_reader(self._fd)
            self._loop.remove_reader(self._gatekeeper.fd)
            self._loop.remove_reader(self._handshakes.fd)
            self._loop = None
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if not self._socket.closed:
            self._handshakes.close()
            self._socket.close(linger=int(linger_s * 1000))
            self._gatekeeper.close()
            self._context.term()

    def _schedule(self) -> None:
        if self._again is not None or self._loop is None:
            return
        wait_s = self._drained_at + REST_S - self._loop.time()
        if wait_s > 0:
            self._loop.remove_reader(self._fd)  # or the loop would spin on what it already knows
            self._again = self._loop.call_later(wait_s, self._wake)
        else:
            self._again = self._loop.call_soon(self._drain)

    def _wake(self) -> None:
        """The rest is over."""
        if self._loop is not None:
            self._loop.add_reader(self._fd, self._schedule)
            self._drain()

    def _drain(self) -> None:
        self._again = None
        began = time.perf_counter()
        shares: dict[bytes, int] = {}
        read = self._read_waiting(shares)
        more = True
        while read < DRAIN_FRAMES and time.perf_counter() - began < DRAIN_S and self._waiting_bytes < WAITING_BYTES:
            received = self._receive()
            if received is None:
                more = False
                break
            read += 1
            session, frame = received
            share = shares[session] = shares.get(session, 0) + len(frame)
            if share > SHARE_BYTES and share > len(frame):
                self._waiting.append(received)
                self._waiting_bytes += len(frame)
            else:
                self._reader.feed(session, frame, self._clock())
        if read:
            self._drained()
        self._rest(is_more=more or bool(self._waiting))

    def _rest(self, *, is_more: bool) -> None:
        """After a drain: go on at once when more is waiting, else after the rest. The drain may have closed us."""
        loop = self._loop
        if loop is None:
            return
        self._drained_at = loop.time()
        if is_more:
            if self._again is not None:
                self._again.cancel()
            self._again = loop.call_soon(self._drain)

    def _read_waiting(self, shares: dict[bytes, int]) -> int:
        """Read what earlier drains put off, each session up to its share, in order."""
        put_off, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        read = 0
        for session, frame in put_off:
            share = shares[session] = shares.get(session, 0) + len(frame)
            if share > SHARE_BYTES and share > len(frame):
                self._waiting.append((session, frame))
                self._waiting_bytes += len(frame)
            else:
                read += 1
                self._reader.feed(session, frame, self._clock())
        return read

    def _receive(self) -> tuple[bytes, bytes] | None:
        while True:
            try:
                session = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return None
            if not self._socket.getsockopt(zmq.RCVMORE):
                self._reader.malformed(session, "a message of one part")
                continue
            frame = self._socket.recv(zmq.NOBLOCK)
            if not self._socket.getsockopt(zmq.RCVMORE):
                return session, frame
            self._skip_parts()
            self._reader.malformed(session, "a message of more than two parts")

    def _skip_parts(self) -> None:
        while self._socket.getsockopt(zmq.RCVMORE):
            self._socket.recv(zmq.NOBLOCK)


def _router(context: zmq.Context[zmq.Socket[bytes]], keys: LinkKeys) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.ROUTER)
    socket.curve_server = True
    socket.curve_secretkey = keys.server_secret.encode("ascii")
    socket.curve_publickey = keys.server_public.encode("ascii")
    socket.setsockopt(zmq.ZAP_DOMAIN, b"trackside")
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a process that reconnects keeps its routing id
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # so that what cannot be delivered is known
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_FRAME_BYTES)
    socket.setsockopt(zmq.RCVHWM, MOST_UNREAD)
    socket.setsockopt(zmq.SNDHWM, 1000)
    notice_dead_peers(socket)
    socket.setsockopt(zmq.LINGER, 500)
    return socket
