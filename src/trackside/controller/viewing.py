"""The page over a run folder, without a controller."""

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from trackside.controller.config import ControllerConfig
from trackside.controller.url import PageAddress
from trackside.errors import DiskSilentError, StoreError
from trackside.server.app import make_app
from trackside.server.assets import read_assets
from trackside.server.built import read_files
from trackside.server.hub import Hub
from trackside.server.listener import WebServer
from trackside.server.port import bind_port, own_names
from trackside.server.security import Access
from trackside.server.tally import Tally
from trackside.sinks.prometheus import take_scrape
from trackside.sinks.protocol import RunSource
from trackside.sinks.report import ReportSink
from trackside.sinks.svg import clean_svg
from trackside.store import DiskThreads, FolderSource
from trackside.wire.documents import RunDocument
from trackside.wire.documents import Warning as OpenWarning
from trackside.wire.ids import ROOT_PATH

log = logging.getLogger("trackside.controller")

LOOK_S = 2.0
"""How often a folder that is still written is looked at again."""


class ViewedFolder:
    """A run folder as it is shown: its picture cleaned, and read again while it is still written.

    Threads: the event loop's; the disk is waited for in a thread of its own.
    """

    def __init__(self, path: Path) -> None:
        self.source = FolderSource(path)
        self._disk = DiskThreads("trackside-folder")
        self._svg = self._clean()
        self._is_new = False
        """Whether something was read that is not shown yet."""
        self._silence: OpenWarning | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def run(self) -> RunDocument:
        """The run; a disk that has stopped answering is among its warnings."""
        run = self.source.run()
        return run if self._silence is None else msgspec.structs.replace(run, warnings=[*run.warnings, self._silence])

    def svg(self) -> str | None:
        """The picture, cleaned: the folder may have come from anywhere."""
        return self._svg

    async def refresh(self) -> bool:
        """Read it again; returns whether there is anything new to show. Raises: StoreError, OSError."""
        was_silent = self._silence is not None
        try:
            await self._disk.ask(self._read)
        except DiskSilentError as error:
            if not was_silent:
                self._silence = _silence(time.time(), error)
        else:
            self._silence = None
        is_new, self._is_new = self._is_new, False
        return is_new or was_silent != (self._silence is not None)

    def close(self) -> None:
        """Idempotent. Blocks: up to two seconds, for a disk."""
        self._disk.close()
        self.source.close()

    def _read(self) -> None:
        if self.source.reload():
            self._svg = self._clean()
            self._is_new = True

    def _clean(self) -> str | None:
        svg = self.source.svg()
        return clean_svg(svg) if svg else None


def _silence(now: float, error: DiskSilentError) -> OpenWarning:
    return OpenWarning(time=now, path=ROOT_PATH, kind="disk", severity="critical", text=str(error))


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
            is_final=lambda: self._folder.source.has_ended,
        )
        access = Access(self._source.run().id, own_names(), self._config.allowed_hosts, self._token)
        tally = Tally()
        app = make_app(
            self._source,
            hub,
            access,
            read_assets(),
            report,
            self._take_scrape,
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
            self._folder.close()
        return 0

    async def _take_scrape(self) -> Callable[[], str]:
        return (await take_scrape(self._source, time.time())).text

    async def _watch(self, hub: Hub) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        looking = loop.create_task(self._keep_looking(hub), name="trackside look")
        try:
            await stopped.wait()
        finally:
            looking.cancel()

    async def _keep_looking(self, hub: Hub) -> None:
        while not self._folder.source.has_ended:
            await asyncio.sleep(LOOK_S)
            try:
                changed = await self._folder.refresh()
            except (StoreError, OSError) as error:
                log.warning("the run folder could not be read again: %s", error)
                continue
            if changed:
                hub.refresh()
        hub.complete()
