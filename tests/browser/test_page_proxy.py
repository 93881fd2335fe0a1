"""The page behind a real reverse proxy, under a prefix: with the final slash and without, with headers that say so and without."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.fleet import Fleet
from tests.conftest import Witness

PREFIX = "/user/me/proxy/7117"


class Proxy(ThreadingHTTPServer):
    """Hands on what lies under the prefix, without it; streams as it comes."""

    daemon_threads = True
    request_queue_size = 128
    """A browser opens many connections at once; beyond the usual five each waits a second and more to be tried again."""

    def __init__(self, upstream: str, *, tells: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.tells = upstream, tells
        self.asked: list[str] = []
        self.url = f"http://localhost:{self.server_port}{PREFIX}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closes a stream is no error."""


class Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if not self.path.startswith(PREFIX):
            self.send_error(404)
            return
        rest = self.path.removeprefix(PREFIX)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection",)}
        if self.server.tells:
            headers |= {"X-Forwarded-Prefix": PREFIX, "X-Forwarded-Uri": self.path}
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        with contextlib.closing(upstream):
            upstream.request("GET", rest if rest.startswith("/") else f"/{rest}", headers=headers)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(65_536):
                self.wfile.write(piece)
                self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:
        """Not on the terminal."""


@pytest.fixture(params=[True, False], ids=["told", "untold"])
def proxy(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    server = Proxy(urlsplit(fleet.url).netloc, tells=request.param)
    thread = threading.Thread(target=server.serve_forever, name="proxy", daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_d72_the_page_is_whole_under_a_prefix(fleet: Fleet, proxy: Proxy, page: Page, witness: Witness) -> None:
    fleet.log({"loss": [3.0, 2.0, 1.0]})
    for ending in ("/", "", "?tab=ranks"):
        page.goto("about:blank")
        page.goto(f"{proxy.url}{ending}")
        expect(page.get_by_role("status", name="State: running")).to_be_visible(timeout=30_000)
        expect(page).to_have_url(re.compile(re.escape(PREFIX) + "/"))
        expect(page.get_by_role("group", name="Ranks alive")).to_contain_text("2 / 2")
    page.goto(f"{proxy.url}/")
    loss = page.get_by_role("group", name="loss")
    expect(loss).to_contain_text("1.5000", timeout=30_000)
    fleet.log({"loss": [7.25]}, step=3)
    expect(loss).to_contain_text("7.7500", timeout=30_000)
    outside = {path.rpartition("/")[0] for path in proxy.asked if not path.startswith(f"{PREFIX}/")}
    allowed = {"", PREFIX.rpartition("/")[0]}  # the icon; the address without its slash
    if not proxy.tells:  # then the browser asks for the page's files once before the page has put the slash back
        allowed.add(f"{PREFIX.rpartition('/')[0]}/assets")
        witness.errors.clear()
    assert outside <= allowed, "every request stays under the prefix"
