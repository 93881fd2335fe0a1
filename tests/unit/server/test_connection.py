"""What a client may hold of the page's server, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from uvicorn.protocols.http.flow_control import FlowControl

from trackside.server import connection as limits
from trackside.server.listener import WebServer
from trackside.server.port import bind_port
from trackside.server.security import Access, Guard
from trackside.server.tally import Tally

pytestmark = pytest.mark.usefixtures("leak_check")

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: loc"
LARGE = "x" * 20_000_000


class Client:
    """A socket that does what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, head: bytes = ASK) -> bytes:
        """One request and what comes first."""
        self.writer.write(head)
        return await self.reader.read(1000)

    async def is_ended(self) -> bool:
        """Whether the server ends it, within a while."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                while await self.reader.read(65_536):
                    pass
        return True


Connect = Callable[[], Awaitable[Client]]


@contextlib.asynccontextmanager
async def serving(app: Starlette | None = None) -> AsyncIterator[tuple[Tally, Connect]]:
    async def small(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    async def large(request: Request) -> PlainTextResponse:
        return PlainTextResponse(LARGE)

    tally = Tally()
    app = app or Starlette(routes=[Route("/", small), Route("/large", large)])
    server = WebServer(app, bind_port("127.0.0.1", 0), tally)
    server.start()
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", server.port, limit=4096)))
        return clients[-1]

    try:
        yield tally, connect
    finally:
        for client in clients:
            client.writer.transport.abort()
        await server.stop()


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not look():  # noqa: ASYNC110 - a poll with a deadline
            await asyncio.sleep(0.01)


def test_half_a_request_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(limits, "HEAD_S", 0.3)

    async def scene() -> None:
        async with serving() as (tally, connect):
            silent, half, endless = await connect(), await connect(), await connect()
            half.writer.write(HALF)
            assert (await endless.ask(ASK + HALF)).startswith(b"HTTP/1.1 200"), "whole before, half after"
            assert all([await client.is_ended() for client in (silent, half, endless)])
            assert tally.requests_too_slow == 3
            assert (await (await connect()).ask()).startswith(b"HTTP/1.1 200")
            await until(lambda: tally.connections == 1)

    asyncio.run(scene())


def test_a_request_that_comes_slowly_and_in_time_is_answered(monkeypatch):
    monkeypatch.setattr(limits, "HEAD_S", 20.0)

    async def scene() -> None:
        async with serving() as (tally, connect):
            client = await connect()
            for byte in ASK[:-1]:
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await client.ask(ASK[-1:])).startswith(b"HTTP/1.1 200")
            assert (await client.ask()).startswith(b"HTTP/1.1 200"), "and the next one on the same connection"
            assert tally.requests_too_slow == 0

    asyncio.run(scene())


def test_who_asks_nothing_gives_way_to_who_asks(monkeypatch):
    monkeypatch.setattr(limits, "MOST_CONNECTIONS", 3)

    async def scene() -> None:
        async with serving() as (tally, connect):
            idle = [await connect() for _ in range(3)]
            await until(lambda: tally.connections == 3)
            for _ in range(5):
                assert (await (await connect()).ask()).startswith(b"HTTP/1.1 200")
            assert all([await client.is_ended() for client in idle])
            assert tally.connections <= 3
            assert (tally.requests_too_slow, tally.connections_refused) == (5, 0)

    asyncio.run(scene())


def test_beyond_the_limit_a_newcomer_is_told_so(monkeypatch):
    monkeypatch.setattr(limits, "MOST_CONNECTIONS", 2)

    async def scene() -> None:
        async with serving() as (tally, connect):
            for _ in range(2):
                await (await connect()).ask(ASK.replace(b"/ ", b"/large "))
            answer = await (await connect()).ask()
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"Too many connections" in answer
            assert tally.connections_refused == 1

    asyncio.run(scene())


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch):
    monkeypatch.setattr(limits, "STALLED_S", 0.3)

    async def scene() -> None:
        async with serving() as (tally, connect):
            await (await connect()).ask(ASK.replace(b"/ ", b"/large "))
            await until(lambda: tally.answers_unread == 1 and tally.connections == 0)

    asyncio.run(scene())


class Buffered:
    """A transport and a loop of which only the size of the unread rest matters."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.calls: list[Callable[[], None]] = []
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def call_later(self, _seconds: float, call: Callable[[], None]) -> Any:
        self.calls.append(call)
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def abort(self) -> None:
        self.aborted = True


def test_a_reader_that_is_only_slow_is_waited_for():
    made = Buffered([100_000, 99_999, 99_998, 99_998])
    connection: Any = limits.Connection.__new__(limits.Connection)
    connection._tally, connection.transport, connection.loop = Tally(), made, made
    connection.flow, connection._unread_timer = FlowControl(made), None
    connection.pause_writing()
    for looks in (1, 2):
        made.calls.pop()()
        assert not made.aborted, looks
    made.calls.pop()()
    assert made.aborted
    assert connection._tally.answers_unread == 1


def test_a_question_brings_no_body():
    async def scene() -> None:
        async def hello(request: Request) -> PlainTextResponse:
            return PlainTextResponse("hello")

        guarded = Starlette(routes=[Route("/", hello)], middleware=[Middleware(Guard, access=Access("run"))])
        async with serving(guarded) as (_, connect):
            for body in (b"Content-Length: 1000000000\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"):
                answer = await (await connect()).ask(ASK[:-2] + body)
                assert answer.startswith(b"HTTP/1.1 413"), answer
            assert (await (await connect()).ask(ASK[:-2] + b"Content-Length: 0\r\n\r\n")).startswith(b"HTTP/1.1 200")

    asyncio.run(scene())
