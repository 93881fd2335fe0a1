"""One connection to one of the controller's hosts: a DEALER socket that is used until it breaks, then thrown away.

ZeroMQ could reconnect by itself, but would then send frames that it still held before our hello, out of their order. So
each connection is a fresh socket, and its first frame is a hello.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import zmq

from trackside.wire.address import ControllerAddress
from trackside.wire.peers import notice_dead_peers

if TYPE_CHECKING:
    Socket = zmq.Socket[bytes]
    Context = zmq.Context[zmq.Socket[bytes]]

SEND_HIGH_WATER = 1000
_READABLE = int(zmq.POLLIN)
"""As a number: with the flag, each look goes through the machinery of `enum`."""
_DOWN = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_CLOSE_FAILED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


def make_context() -> "Context":
    """Our own, so that a program which uses ZeroMQ too can end its own as it likes.

    Raises:
        OSError: No descriptor is left.
    """
    with _as_oserror():
        return zmq.Context()


@contextmanager
def _as_oserror() -> Iterator[None]:
    """`ZMQError` is none."""
    try:
        yield
    except zmq.ZMQError as error:
        raise OSError(error.errno, str(error)) from error


class Connection:
    """A socket on its way to a host, then connected, then broken.

    Args:
        context: Owns the socket.
        address: Port and keys.
        host: One of the address's.
        session: Routing id.

    Raises:
        OSError: No such host, or no descriptor is left.

    Threads: one. Blocks: never.
    """

    def __init__(self, context: "Context", address: ControllerAddress, host: str, session: bytes) -> None:
        with _as_oserror():
            self._open(context, address, host, session)

    def _open(self, context: "Context", address: ControllerAddress, host: str, session: bytes) -> None:
        socket = self._socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, session)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.IPV6, 1)
        notice_dead_peers(socket)
        socket.curve_serverkey = address.server_key.encode("ascii")
        socket.curve_publickey = address.client_public.encode("ascii")
        socket.curve_secretkey = address.client_secret.encode("ascii")
        try:
            self._events = socket.get_monitor_socket(_DOWN)
        except zmq.ZMQError:
            socket.close(linger=0)
            raise
        try:
            socket.connect(f"tcp://{f'[{host}]' if ':' in host else host}:{address.port}")
        except zmq.ZMQError:
            self.close()
            raise

    def send(self, frame: bytes) -> bool:
        """Hand a frame to ZeroMQ; False when it takes no more now."""
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def receive(self) -> bytes | None:
        """The next frame; None when there is none."""
        try:
            if not int(self._socket.getsockopt(zmq.EVENTS)) & _READABLE:
                return None
            return self._socket.recv(zmq.NOBLOCK)
        except zmq.ZMQError:
            return None

    def wait(self, seconds: float) -> None:
        """Wait for a frame. Blocks: up to `seconds`."""
        self._socket.poll(int(seconds * 1000))

    def is_broken(self) -> bool:
        """Whether it has failed or ended; it never comes back."""
        return bool(int(self._events.getsockopt(zmq.EVENTS)) & _READABLE)

    def close(self) -> None:
        """Drop it, and what it still holds."""
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.close(linger=0)
