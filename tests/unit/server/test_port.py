import contextlib
import os
import socket
import urllib.request

import pytest

from trackside.errors import PortTakenError, UsageError
from trackside.server import port as port_module
from trackside.server.port import BLOCKED_PORTS, bind_port, own_names


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_taken_port_names_its_holder(taken):
    with pytest.raises(PortTakenError) as refused:
        bind_port("127.0.0.1", taken)
    text = str(refused.value)
    assert str(taken) in text
    assert f"pid {os.getpid()}" in text
    assert "--port" in text


def test_the_default_port_moves_on(monkeypatch, taken):
    monkeypatch.setattr(port_module, "DEFAULT_PORT", taken)
    monkeypatch.setattr(port_module, "BLOCKED_PORTS", frozenset({taken + 1}))
    with bind_port("127.0.0.1", None) as listening:
        assert listening.getsockname()[1] >= taken + 2


def test_d76_browsers_must_be_able_to_open_it():
    assert 6000 in BLOCKED_PORTS
    with pytest.raises(UsageError, match="6000"):
        bind_port("127.0.0.1", 6000)


def test_d75_a_freed_port_can_be_had_again_and_no_child_inherits_it():
    listening = bind_port("127.0.0.1", 0)
    number = listening.getsockname()[1]
    assert not listening.get_inheritable()
    client = socket.create_connection(("127.0.0.1", number))
    accepted, _ = listening.accept()
    accepted.close()
    client.close()
    listening.close()
    bind_port("127.0.0.1", number).close()


def test_an_address_of_another_machine_cannot_be_bound():
    with pytest.raises(PortTakenError, match=r"192\.0\.2\.1"):
        bind_port("192.0.2.1", 0)


def test_this_machine_has_names():
    names = own_names()
    assert socket.gethostname().lower() in names
    assert "127.0.0.1" in names


@pytest.mark.usefixtures("leak_check")
def test_a_server_answers_and_frees_its_port():
    import asyncio

    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from trackside.server.listener import WebServer

    async def hello(request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    async def scene() -> int:
        server = WebServer(Starlette(routes=[Route("/", hello)]), bind_port("127.0.0.1", 0))
        server.start()

        def read() -> bytes:
            with contextlib.closing(urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=5)) as answer:
                return answer.read()

        assert await asyncio.to_thread(read) == b"hello"
        await server.stop()
        await server.stop()
        return server.port

    number = asyncio.run(scene())
    bind_port("127.0.0.1", number).close()


def test_an_address_that_is_not_this_machines_is_told_from_a_port_that_is_taken() -> None:
    with pytest.raises(PortTakenError, match="--bind takes an address of this machine"):
        bind_port("192.0.2.1", 0)
