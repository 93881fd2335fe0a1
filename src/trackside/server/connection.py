"""One HTTP connection that holds nothing for ever: not half a request, not an answer that nobody reads."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from trackside.server.tally import Tally

MOST_CONNECTIONS = 768
"""Open at once; beyond, the one that has asked for nothing for the longest gives way, or else the newcomer does."""
HEAD_S = 10.0
"""How long a request may take until its head is whole."""
STALLED_S = 30.0
"""How long an answer may wait without one byte of it being read."""
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
    b'{"error":{"code":"too_many_connections","message":"Too many connections are open to this page; close some."}}'
)


class Connection(H11Protocol):
    """uvicorn's, with a bound on each thing a client can make it wait for.

    Args:
        tally: of the server.
    """

    def __init__(self, *arguments: Any, tally: Tally, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tally = tally
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        tally = self._tally
        tally.connections += 1
        if tally.connections > MOST_CONNECTIONS:
            if not tally.without_request:
                tally.connections_refused += 1
                transport.write(BUSY)
                transport.close()
                return
            next(iter(tally.without_request)).give_way()
        tally.without_request[self] = None
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._tally.connections -= 1
        self._tally.without_request.pop(self, None)
        self._cancel_head()
        self._cancel_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        super().data_received(data)
        if self._is_answering:
            self._tally.without_request.pop(self, None)
            self._cancel_head()
        elif self._head_timer is None and not self.transport.is_closing():
            self._expect_head()

    def on_response_complete(self) -> None:
        """An answer is whole; the next request may come."""
        super().on_response_complete()
        if self._is_answering or self.transport.is_closing():
            return
        if self._unread_timer is None:
            self._tally.without_request[self] = None
        if self.conn.trailing_data[0]:  # some of it has come already
            self._expect_head()

    def pause_writing(self) -> None:
        """More waits to be read than is good."""
        super().pause_writing()
        self._cancel_unread()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(STALLED_S, self._look_at_unread)

    def resume_writing(self) -> None:
        """It was read."""
        super().resume_writing()
        self._cancel_unread()
        if not self._is_answering and not self.transport.is_closing():
            self._tally.without_request[self] = None

    def give_way(self) -> None:
        """End it: it asks for nothing, or not fast enough."""
        self._tally.requests_too_slow += 1
        self._tally.without_request.pop(self, None)
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn says otherwise
        return cycle is not None and not cycle.response_complete

    def _expect_head(self) -> None:
        self._cancel_head()
        self._head_timer = self.loop.call_later(HEAD_S, self.give_way)

    def _cancel_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _look_at_unread(self) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= self._unread_bytes:
            self._tally.answers_unread += 1
            self.transport.abort()
            return
        self._unread_bytes = left
        self._unread_timer = self.loop.call_later(STALLED_S, self._look_at_unread)

    def _cancel_unread(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
