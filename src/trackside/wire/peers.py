"""How both ends of the link notice that the other's machine or network is gone."""

from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    Socket = zmq.Socket[bytes]

IDLE_S = 10
EVERY_S = 5
TIMES = 3
UNANSWERED_MS = 25_000


def notice_dead_peers(socket: "Socket") -> None:
    """Have the kernel end connections whose other end has not answered for 25 s.

    ZeroMQ's own heartbeats must stay off: while more waits unread than the high water mark allows, a connection that is reset
    and then beats ends the whole process (`Assertion failed: !_io_error`), the user's training included.
    """
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, IDLE_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, EVERY_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, TIMES)
    socket.setsockopt(zmq.TCP_MAXRT, UNANSWERED_MS)
