"""A small controller in a thread: the real wire, keys and all; what it answers is up to the test."""

import threading
import time
from types import TracebackType
from typing import Any, Self

import zmq

from trackside.ingest.gatekeeper import Gatekeeper
from trackside.ingest.keys import LinkKeys, make_keys
from trackside.wire import codec, messages
from trackside.wire.address import ControllerAddress
from trackside.wire.machine import machine_id


class FakeController:
    """Welcomes, acknowledges and answers heartbeats unless told not to; keeps every frame's message in order.

    Args:
        keys: To come back with the same ones.
        port: To come back on the same one.
        durable: What an earlier life made durable, by session.
        acks: Whether anything becomes durable.
        refuse: A reason to refuse every session.
    """

    def __init__(
        self,
        keys: LinkKeys | None = None,
        port: int = 0,
        durable: dict[bytes, int] | None = None,
        *,
        acks: bool = True,
        refuse: str | None = None,
        directory: str = "/nowhere",
    ) -> None:
        self.keys = keys or make_keys()
        self.durable = durable if durable is not None else {}
        self.acks, self.refuse, self.directory = acks, refuse, directory
        self.frames: list[tuple[int, Any]] = []
        """(seq, message) of everything that came, hellos and heartbeats too."""
        self.clock_ahead_s = 0.0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._keeper = Gatekeeper(self._context, self.keys.client_public, lambda peer: None)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.curve_server = True
        self._socket.curve_secretkey = self.keys.server_secret.encode()
        self._socket.curve_publickey = self.keys.server_public.encode()
        self._socket.setsockopt(zmq.ZAP_DOMAIN, b"trackside")
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        self.port = int(bytes(self._socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").rpartition(b":")[2])
        self._stop = threading.Event()
        self._say: list[messages.Downward] = []
        self._thread = threading.Thread(target=self._serve, name="fake-controller", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> ControllerAddress:
        return ControllerAddress(
            run="r1",
            hosts=["127.0.0.1"],
            port=self.port,
            server_key=self.keys.server_public,
            client_public=self.keys.client_public,
            client_secret=self.keys.client_secret,
        )

    def close(self) -> None:
        """Die: the port is free at once. Idempotent."""
        self._stop.set()
        self._thread.join(10)

    def say(self, message: messages.Downward) -> None:
        """Send something to whoever wrote last."""
        self._say.append(message)

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for _, message in list(self.frames) if isinstance(message, kind)]

    def sequenced(self) -> list[int]:
        return [seq for seq, _ in list(self.frames) if seq]

    def taken_once(self) -> list[Any]:
        """Sequenced messages as the real controller takes them: what is not above the highest is known."""
        highest, taken = 0, []
        for seq, message in list(self.frames):
            if seq > highest:
                taken.append(message)
                highest = seq
        return taken

    def _serve(self) -> None:
        poller = zmq.Poller()
        for socket in (self._socket, self._keeper._socket):
            poller.register(socket, zmq.POLLIN)
        session = b""
        while not self._stop.is_set():
            poller.poll(10)
            self._keeper.answer()
            while self._socket.poll(0):
                session, frame = self._socket.recv_multipart()
                self._take(session, frame)
            while self._say and session:
                self._answer(session, self._say.pop(0))
        self._socket.close(linger=0)
        self._keeper.close()
        self._context.term()

    def _take(self, session: bytes, frame: bytes) -> None:
        envelope = codec.open_envelope(frame)
        message = codec.decode_body(envelope)
        self.frames.append((envelope.seq, message))
        if isinstance(message, messages.Hello):
            self._greet(session)
        elif isinstance(message, messages.Heartbeat):
            now = time.time() + self.clock_ahead_s
            self._answer(session, messages.Pong(sent_at=message.sent_at, received_at=now))
        elif envelope.seq and self.acks and envelope.seq == self.durable.get(session, 0) + 1:
            self.durable[session] = envelope.seq
            self._answer(session, messages.Ack(durable_seq=envelope.seq))

    def _greet(self, session: bytes) -> None:
        if self.refuse is not None:
            self._answer(session, messages.Refused(reason=self.refuse))
            return
        welcome = messages.Welcome(
            run="r1",
            name="n",
            directory=self.directory,
            machine_id=machine_id() if self.directory != "/nowhere" else "elsewhere",
            durable_seq=self.durable.get(session, 0),
        )
        self._answer(session, welcome)

    def _answer(self, session: bytes, message: messages.Downward) -> None:
        self._socket.send_multipart([session, codec.encode(message)])
