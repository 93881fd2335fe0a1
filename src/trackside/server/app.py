"""The Starlette application: every address, guarded."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trackside.errors import DiskSilentError
from trackside.server import answers
from trackside.server.assets import Asset
from trackside.server.hub import Hub
from trackside.server.openapi import describe_api
from trackside.server.routes.page import Page
from trackside.server.routes.run import RunRoutes
from trackside.server.routes.series import SeriesRoute
from trackside.server.routes.stream import StreamRoute
from trackside.server.security import EVERY_ANSWER, Access, Guard
from trackside.server.shared import SharedAnswer
from trackside.server.tally import Tally
from trackside.sinks.protocol import RunSource

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

TakeScrape = Callable[[], Awaitable[Callable[[], str]]]


class ReportMaker(Protocol):
    """Makes the report as it would be now; once the run is over, as it was written."""

    async def render(self) -> bytes:
        """The whole file."""

    async def data(self) -> bytes:
        """What it holds, as JSON of a `Baked`."""


def make_app(
    source: RunSource,
    hub: Hub,
    access: Access,
    assets: Mapping[str, Asset],
    report: ReportMaker,
    prometheus: TakeScrape,
    tally: Tally | None = None,
) -> Starlette:
    """Build the application of one run.

    Args:
        source: what there is to show.
        hub: what changes.
        access: who may see it.
        assets: the built page.
        report: makes the report.
        prometheus: takes down what the Prometheus text says, and returns what makes it, in any thread.
        tally: of the server that answers.
    """
    tally = tally or Tally()
    run, page, series = RunRoutes(source, hub, tally), Page(assets), SeriesRoute(source, time.monotonic, tally)
    routes = [
        Route("/", page.index),
        Route("/healthz", run.health),
        Route("/api/v1/run", run.run),
        Route("/api/v1/ranks", run.ranks),
        Route("/api/v1/tree", run.tree),
        Route("/api/v1/metrics", run.metrics),
        Route("/api/v1/series", series.series),
        Route("/api/v1/epochs", run.epochs),
        Route("/api/v1/resources", run.resources),
        Route("/api/v1/gauges", run.gauges),
        Route("/api/v1/events", run.events),
        Route("/api/v1/heat", run.heat),
        Route("/api/v1/graph", run.graph),
        Route("/api/v1/stream", StreamRoute(source, hub), methods=["GET", "HEAD"]),
        Route("/api/v1/openapi.json", _openapi),
        Route("/graph.svg", run.picture),
        Route("/api/v1/report", _baked(report.data)),
        Route("/metrics", _prometheus(prometheus)),
        Route("/report.html", _report(source, report.render)),
        Route("/{path:path}", page.file),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _explain, DiskSilentError: _explain_silence, Exception: _explain_failure},
    )
    app.router.redirect_slashes = False
    return app


def _prometheus(take: TakeScrape) -> Callable[[Request], Awaitable[Response]]:
    async def begin() -> Callable[[], bytes]:
        write = await take()
        return lambda: write().encode()

    shared = SharedAnswer(begin)

    async def metrics(request: Request) -> Response:
        return await answers.body(request, await shared.get(), METRICS_TYPE)

    return metrics


def _baked(write: Callable[[], Awaitable[bytes]]) -> Callable[[Request], Awaitable[Response]]:
    async def baked(request: Request) -> Response:
        return await answers.body(request, await write(), "application/json")

    return baked


def _report(source: RunSource, write: Callable[[], Awaitable[bytes]]) -> Callable[[Request], Awaitable[Response]]:
    async def report(request: Request) -> Response:
        name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in source.run().name)[:80]
        headers = {
            "Content-Disposition": f'attachment; filename="{name or "run"}-report.html"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return await answers.body(request, await write(), "text/html", headers)

    return report


async def _openapi(request: Request) -> Response:
    return await answers.json(request, describe_api())


async def _explain(request: Request, problem: Exception) -> Response:
    if isinstance(problem, answers.AnswerError):
        return answers.error(problem.status_code, problem.code, problem.detail, problem.headers)
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    if status == 404:
        return answers.error(404, "not_found", f"There is nothing at {request.url.path[:200]!r}.")
    return answers.error(status, "not_possible", f"{request.method} {request.url.path[:200]!r} is not possible.")


async def _explain_silence(request: Request, problem: Exception) -> Response:
    return answers.error(503, "disk_silent", f"{problem}.")


async def _explain_failure(request: Request, problem: Exception) -> Response:
    return answers.error(
        500,
        "failed",
        f"Answering {request.url.path[:200]!r} failed ({type(problem).__name__}); the controller goes on.",
        EVERY_ANSWER,  # this one is made outside of the guard
    )
