"""The controller's end of the wire alone, with the real listener: what arrived, acknowledged or held back at will."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from trackside.ingest.keys import LinkKeys, make_keys
from trackside.ingest.listener import Listener
from trackside.ingest.reader import FrameReader
from trackside.run.inputs import MessageArrived, MetricAppeared, PointsArrived, SessionOpened
from trackside.wire import messages
from trackside.wire.address import ControllerAddress, format_address


class Station:
    """Listens in a thread of its own. `acks=False` takes frames without ever saying they are durable."""

    def __init__(self, keys: LinkKeys | None = None, port: int = 0, *, acks: bool = True) -> None:
        self.keys = keys or make_keys()
        self.run = self.keys.server_public.encode().hex()[:12]
        """Of its own, since a rank takes over what killed ones of its run have left on the machine."""
        self.inputs: list[Any] = []
        self._acks = acks
        self._wanted_port = port
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="station", daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    @property
    def address(self) -> str:
        return format_address(
            ControllerAddress(
                run=self.run,
                hosts=["127.0.0.1"],
                port=self.port,
                server_key=self.keys.server_public,
                client_public=self.keys.client_public,
                client_secret=self.keys.client_secret,
            )
        )

    def of(self, kind: type[Any]) -> list[Any]:
        """Messages of one kind, in order."""
        return [i.message for i in list(self.inputs) if isinstance(i, MessageArrived) and isinstance(i.message, kind)]

    def hellos(self) -> list[messages.Hello]:
        return [i.hello for i in list(self.inputs) if isinstance(i, SessionOpened)]

    def names(self) -> dict[int, str]:
        return {i.id: i.name for i in list(self.inputs) if isinstance(i, MetricAppeared)}

    def points(self) -> list[tuple[str, int, int, float]]:
        """(metric, rank, step, value) of every point, as they came."""
        names = self.names()
        return [
            (names[m], r, s, v)
            for batch in [i.batch for i in list(self.inputs) if isinstance(i, PointsArrived)]
            for m, r, s, v in zip(
                batch.metric.tolist(), batch.rank.tolist(), batch.step.tolist(), batch.value.tolist(), strict=True
            )
        ]

    def close(self) -> None:
        """Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        seen: dict[bytes, None] = {}
        reader = FrameReader(
            self.run,
            keep=lambda session, *_: seen.setdefault(session),
            send=lambda session, message: listener.send(session, message),  # noqa: PLW0108 - made below
            ask_again=lambda session: welcome(session),  # noqa: PLW0108 - made below
            has_room=lambda **_: True,
        )

        def welcome(session: bytes) -> None:
            durable = reader.highest_seq(session) if self._acks else 0
            listener.send(
                session,
                messages.Welcome(run=self.run, name="n", directory="/nowhere", machine_id="x", durable_seq=durable),
            )

        def drained() -> None:
            taken = reader.take()
            for item in taken:
                if isinstance(item, SessionOpened):
                    welcome(item.hello.session)
                if isinstance(item, MessageArrived) and isinstance(item.message, messages.Heartbeat):
                    pong = messages.Pong(sent_at=item.message.sent_at, received_at=time.time())
                    listener.send(item.session, pong)
            self.inputs += taken
            if self._acks:
                for session in seen:
                    listener.send(session, messages.Ack(durable_seq=reader.highest_seq(session)))

        listener = Listener(self.keys, reader, drained)
        self.port = listener.bind("127.0.0.1", self._wanted_port)
        listener.start(self._loop)
        self._ready.set()
        self._loop.run_forever()
        listener.close()
        self._loop.close()
