"""The page's server, opened, and loaded, when the first wish arrives: a run without a page pays nothing for it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from trackside.controller.url import PageAddress
from trackside.errors import TracksideError
from trackside.run.inputs import PageBindFailed, PageBound
from trackside.server.hub import Hub
from trackside.server.tally import Tally
from trackside.sinks.protocol import RunSource

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from trackside.server.app import ReportMaker
    from trackside.server.listener import WebServer


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What a page needs to know before it listens."""

    run: str
    bind: str
    token: str | None
    allowed_hosts: tuple[str, ...]
    default_port: int | None
    """Taken when a wish names none; None: 7117 or the next free one."""


class Website:
    """Listens at most once.

    Args:
        site: where and for whom.
        source: what there is to show.
        hub: what changes.
        report: makes the report.
        prometheus: takes down what the Prometheus text says, and returns what makes it.
        said: called with what came of a wish.
    """

    def __init__(
        self,
        site: Site,
        source: RunSource,
        hub: Hub,
        report: "ReportMaker",
        prometheus: Callable[[], Awaitable[Callable[[], str]]],
        said: Callable[[PageBound | PageBindFailed], None],
    ) -> None:
        self._site = site
        self._source = source
        self._hub = hub
        self._report = report
        self._prometheus = prometheus
        self._said = said
        self._server: WebServer | None = None
        self.tally = Tally()
        """What its server counts."""

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    def open(self, port: int | None) -> None:
        """Listen, in the running loop; what came of it is said. Blocks: never."""
        if self._server is not None:
            return
        from trackside.server.listener import WebServer
        from trackside.server.port import DEFAULT_PORT, bind_port

        wanted = self._site.default_port if port is None else port
        host = "127.0.0.1" if self._site.bind == "localhost" else self._site.bind
        try:
            listening = bind_port(host, wanted)
        except (TracksideError, OSError) as error:
            self._said(PageBindFailed(DEFAULT_PORT if wanted is None else wanted, str(error)))
            return
        self._server = WebServer(self._app(), listening, self.tally)
        self._server.start()
        address = PageAddress(self._site.bind, self._server.port, self._site.token)
        self._said(PageBound(host, self._server.port, address.line()))

    async def close(self) -> None:
        """Free the port; idempotent. Blocks: up to a few seconds, for answers under way."""
        self._hub.close()
        if self._server is not None:
            await self._server.stop()

    def _app(self) -> "ASGIApp":
        from trackside.server.app import make_app
        from trackside.server.assets import read_assets
        from trackside.server.port import own_names
        from trackside.server.security import Access

        access = Access(self._site.run, own_names(), self._site.allowed_hosts, self._site.token)
        return make_app(self._source, self._hub, access, read_assets(), self._report, self._prometheus, self.tally)
