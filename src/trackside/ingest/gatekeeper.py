"""Lets in the holders of the run's client key and nobody else (ZeroMQ's ZAP, RFC 27)."""

import hmac
from collections.abc import Callable

import zmq
from zmq.utils import z85

ENDPOINT = "inproc://zeromq.zap.01"


class Gatekeeper:
    """Answers ZeroMQ's question about each new connection of one context.

    Args:
        context: of the socket to guard; the gatekeeper must exist before the socket binds.
        client_public: the one key that is let in, Z85.
        refused: called with the peer's address for each one that is not.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], client_public: str, refused: Callable[[str], None]
    ) -> None:
        self._key = z85.decode(client_public)
        self._refused = refused
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(ENDPOINT)

    @property
    def fd(self) -> int:
        """Readable when `answer` has something to do (edge-triggered)."""
        return int(self._socket.getsockopt(zmq.FD))

    def answer(self) -> None:
        """Answer all waiting questions. Blocks: never."""
        while True:
            try:
                question = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._socket.send_multipart(self._decide(question))

    def close(self) -> None:
        """Stop answering; connections made later are not let in."""
        self._socket.close()

    def _decide(self, question: list[bytes]) -> list[bytes]:
        if len(question) < 6:
            return [b"1.0", question[1] if len(question) > 1 else b"", b"400", b"malformed question", b"", b""]
        version, request, _domain, address, _identity, mechanism, *credentials = question
        if mechanism == b"CURVE" and credentials and hmac.compare_digest(credentials[0], self._key):
            return [version, request, b"200", b"OK", b"", b""]
        self._refused(address.decode("ascii", "replace"))
        return [version, request, b"400", b"not a key of this run", b"", b""]
