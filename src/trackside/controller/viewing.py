"""The page over a run folder, without a controller."""

import asyncio
import contextlib
import logging
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from trackside.controller.config import ControllerConfig
from trackside.controller.url import PageAddress
from trackside.errors import StoreError
from trackside.server.app import make_app
from trackside.server.assets import read_assets, read_files
from trackside.server.hub import Hub
from trackside.server.listener import WebServer
from trackside.server.port import bind_port, own_names
from trackside.server.security import Access
from trackside.server.tally import Tally
from trackside.sinks.prometheus import take_scrape
from trackside.sinks.protocol import RunSource
from trackside.sinks.report import ReportSink
from trackside.sinks.svg import clean_svg
from trackside.store import FolderSource

log = logging.getLogger("trackside.controller")

LOOK_S = 2.0
"""How often a folder that is still written is looked at again."""
ENDED = ("finished", "failed", "terminated")


class ViewedFolder:
    """A run folder as it is shown: its picture cleaned, and read again while it is still written."""

    def __init__(self, path: Path) -> None:
        self.source = FolderSource(path)
        self._svg = self._clean()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def svg(self) -> str | None:
        """The picture, cleaned: the folder may have come from anywhere."""
        return self._svg

    @property
    def has_ended(self) -> bool:
        """Whether nothing will be added to it."""
        return self.source.run().state in ENDED or not self.source.folder.journal.is_dir()

    async def refresh(self) -> bool:
        """Read it again; returns whether anything is new."""
        changed = await asyncio.to_thread(self.source.reload)
        if changed:
            self._svg = await asyncio.to_thread(self._clean)
        return changed

    def _clean(self) -> str | None:
        svg = self.source.svg()
        return clean_svg(svg) if svg else None


class Viewer:
    """Serves one run folder.

    Args:
        path: of the run folder.
        config: port, address and allowed hosts are used.
        token: what readers must show.

    Raises:
        RunFolderError: it is none.
    """

    def __init__(self, path: str, config: ControllerConfig, token: str | None) -> None:
        self.directory = Path(path).absolute()
        self._config = config
        self._token = token
        self._folder = ViewedFolder(self.directory)
        self._source = cast("RunSource", self._folder)

    async def run(self, ready: Callable[[str, str], None]) -> int:
        """Serve until a signal.

        Args:
            ready: called with the page's URL and the line that names it.
        """
        hub = Hub(self._source, secrets.token_hex(4))
        report = ReportSink(
            self._source,
            read_files(),
            self.directory / "report.html",
            time.time,
            is_final=lambda: self._folder.has_ended,
        )
        access = Access(self._source.run().id, own_names(), self._config.allowed_hosts, self._token)
        tally = Tally()
        app = make_app(
            self._source,
            hub,
            access,
            read_assets(),
            report,
            lambda: take_scrape(self._source, time.time()).text,
            tally,
        )
        host = "127.0.0.1" if self._config.bind == "localhost" else self._config.bind
        server = WebServer(app, bind_port(host, self._config.port), tally)
        server.start()
        address = PageAddress(self._config.bind, server.port, self._token)
        ready(address.url(), address.line())
        try:
            await self._watch(hub)
        finally:
            hub.close()
            await server.stop()
            self._folder.source.close()
        return 0

    async def _watch(self, hub: Hub) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        if self._folder.has_ended:
            hub.complete()
        while not stopped.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._folder.has_ended else LOOK_S):
                    await stopped.wait()
            if not stopped.is_set():
                await self._look(hub)

    async def _look(self, hub: Hub) -> None:
        try:
            changed = await self._folder.refresh()
        except (StoreError, OSError) as error:
            log.warning("the run folder could not be read again: %s", error)
            return
        if changed:
            hub.refresh()
            if self._folder.has_ended:
                hub.complete()
