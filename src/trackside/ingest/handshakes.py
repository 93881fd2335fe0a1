"""Counts who came to the link's port and never got in: no ZeroMQ, no CURVE, the key of another controller."""

import struct
from collections.abc import Callable

import zmq

_EVENT = struct.Struct("=HI")
"""Kind, and a file descriptor or a reason."""
_ENDS = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
_WATCHED = zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | _ENDS


class Handshakes:
    """Watches the connections of one socket.

    Args:
        socket: that others connect to.
        failed: called for each connection that ended before its handshake, those left out that the gatekeeper has refused.
    """

    def __init__(self, socket: zmq.Socket[bytes], failed: Callable[[], None]) -> None:
        self._guarded = socket
        self._failed = failed
        self._events = socket.get_monitor_socket(_WATCHED)
        self._begun: set[int] = set()
        self._refused = 0
        """Connections that the gatekeeper has refused and that are not closed yet."""

    @property
    def fd(self) -> int:
        """Readable when `read` has something to do (edge-triggered)."""
        return int(self._events.getsockopt(zmq.FD))

    def read(self) -> None:
        """Take all that has happened. Blocks: never."""
        while True:
            try:
                event, _endpoint = self._events.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(*_EVENT.unpack(event))

    def close(self) -> None:
        """Stop watching."""
        self._guarded.disable_monitor()
        self._events.close(linger=0)

    def _take(self, kind: int, value: int) -> None:
        if kind == zmq.EVENT_ACCEPTED:
            self._begun.add(value)
        elif kind == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._refused += 1
        elif kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._begun.discard(value)
        elif kind & _ENDS and value in self._begun:
            self._begun.discard(value)
            if self._refused:
                self._refused -= 1
            else:
                self._failed()
