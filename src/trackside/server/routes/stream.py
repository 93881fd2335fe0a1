"""The event stream."""

import asyncio

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from trackside.server import sse
from trackside.server.answers import AnswerError
from trackside.server.hub import Hub
from trackside.server.paths import known_path
from trackside.server.subscriber import PIECE_BYTES, Subscriber
from trackside.sinks.protocol import RunSource

PING_S = 15.0
MOST_CLIENTS = 512
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class StreamRoute:
    """`/api/v1/stream`.

    Args:
        source: of the run.
        hub: where clients register.
        ping_s: seconds of silence after which a comment keeps proxies from closing the connection.
    """

    def __init__(self, source: RunSource, hub: Hub, ping_s: float = PING_S) -> None:
        self._source = source
        self._hub = hub
        self._ping_s = ping_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application: nothing stands between the queue and the socket."""
        request = Request(scope)
        path = known_path(self._source, request.query_params.get("path", "root"))
        if self._hub.client_count >= MOST_CLIENTS:
            self._hub.clients_refused += 1
            raise AnswerError(503, "too_many_viewers", f"{MOST_CLIENTS} pages watch this run already; close some.")
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        last = request.headers.get("last-event-id") or request.query_params.get("lastEventId")
        subscriber = self._hub.subscribe(path, last)
        gone = asyncio.create_task(_wait_until_gone(receive, subscriber))
        try:
            await send({"type": "http.response.body", "body": sse.RETRY, "more_body": True})
            await self._forward(subscriber, path, send)
        finally:
            self._hub.unsubscribe(path, subscriber)
            gone.cancel()

    async def _forward(self, subscriber: Subscriber, path: str, send: Send) -> None:
        while not subscriber.gone:
            chunk = b"" if await subscriber.wait(self._ping_s) else sse.PING
            if subscriber.is_due:
                self._hub.renew(path, subscriber)
            chunk += subscriber.take(PIECE_BYTES)
            is_over = subscriber.closed and not subscriber.has_more
            if chunk or is_over:
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_over})
            if is_over:
                return


async def _wait_until_gone(receive: Receive, subscriber: Subscriber) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    subscriber.leave()
