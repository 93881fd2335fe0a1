"""Documents that answer from memory."""

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from trackside._version import __version__
from trackside.run import gauges
from trackside.run.tree import tree_of
from trackside.server import answers
from trackside.server.answers import AnswerError
from trackside.server.encoding import encode
from trackside.server.hub import Hub
from trackside.server.paths import known_path
from trackside.server.routes.series import read_points
from trackside.server.security import PICTURE_POLICY
from trackside.server.shared import SharedAnswer
from trackside.server.tally import Tally
from trackside.sinks.protocol import RunSource
from trackside.wire.codec import PROTOCOL
from trackside.wire.documents import Health


class RunRoutes:
    """The run, its ranks, metrics, epochs, resources, events, graph."""

    def __init__(self, source: RunSource, hub: Hub, tally: Tally) -> None:
        self._source = source
        self._hub = hub
        self._tally = tally
        self._tree = SharedAnswer(self._begin_tree)

    async def health(self, request: Request) -> Response:
        counters = {**self._source.counters(), **self._hub.counters(), **self._tally.counters()}
        return await answers.json(
            request, Health(status="ok", version=__version__, protocol=PROTOCOL, counters=counters)
        )

    async def run(self, request: Request) -> Response:
        return await answers.json(request, self._source.run())

    async def ranks(self, request: Request) -> Response:
        return await answers.json(request, self._source.ranks())

    async def tree(self, request: Request) -> Response:
        return await answers.body(request, await self._tree.get(), "application/json")

    async def _begin_tree(self) -> Callable[[], bytes]:
        values = await self._source.last_values()
        ranks, metrics = self._source.ranks(), self._source.metrics()
        return lambda: encode(tree_of(ranks, metrics, values))

    async def metrics(self, request: Request) -> Response:
        return await answers.json(request, self._source.metrics())

    async def epochs(self, request: Request) -> Response:
        return await answers.json(request, self._source.epochs())

    async def events(self, request: Request) -> Response:
        return await answers.json(request, self._source.events())

    async def resources(self, request: Request) -> Response:
        path = request.query_params.get("path", "root")
        return await answers.json(request, self._source.resources(known_path(self._source, path)))

    async def gauges(self, request: Request) -> Response:
        path = known_path(self._source, request.query_params.get("path", "root"))
        points = read_points(request.query_params.get("points"))
        records = self._source.resources(path, gauges.MOST_SAMPLES)
        content = await asyncio.to_thread(lambda: encode(gauges.gauges_of(records, points)))
        return await answers.body(request, content, "application/json")

    async def heat(self, request: Request) -> Response:
        path = request.query_params.get("path", "root")
        return await answers.json(request, self._source.heat(known_path(self._source, path)))

    async def graph(self, request: Request) -> Response:
        return await answers.json(request, self._source.graph())

    async def picture(self, request: Request) -> Response:
        svg = self._source.svg()
        if svg is None:
            raise AnswerError(404, "no_picture", "This run has no picture of its model yet; call watch() or set_svg().")
        return await answers.body(request, svg.encode(), "image/svg+xml", {"Content-Security-Policy": PICTURE_POLICY})
