"""The application over a made run, and a client that talks to it without a socket."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.unit.server.made_run import MadeRun
from trackside.server.app import make_app
from trackside.server.assets import read_assets
from trackside.server.hub import Hub
from trackside.server.security import Access

ASSETS_PAGE = b"<!doctype html><title>page</title>" + b" " * 600


async def scrape() -> Callable[[], str]:
    return lambda: "trackside_up 1\n"


class Site:
    """The application with a client that talks to it."""

    def __init__(self, tmp_path: Path, **access: Any) -> None:
        (tmp_path / "assets").mkdir(exist_ok=True)
        (tmp_path / "index.html").write_bytes(ASSETS_PAGE)
        (tmp_path / "assets" / "index-CuJzoOfK.js").write_bytes(b"let a = 1;" * 100)
        (tmp_path / ".secret").write_text("no")
        self.source = MadeRun()
        self.hub = Hub(self.source, "boot")
        self.access = Access("run-a", **access)

        class Report:
            async def render(self) -> bytes:
                return b"<html>report</html>"

            async def data(self) -> bytes:
                return b"{}"

        self.app = make_app(self.source, self.hub, self.access, read_assets(tmp_path), Report(), scrape)

    def ask(self, path: str, method: str = "GET", base: str = "http://localhost", **headers: str) -> httpx.Response:
        async def request() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})

        return asyncio.run(request())
