"""Runs the application on a socket, inside the event loop of whoever owns it."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from trackside.server.connection import Connection
from trackside.server.tally import Tally

log = logging.getLogger("trackside.server")

GRACE_S = 1
"""How long open connections may take to end."""


class _Uvicorn(uvicorn.Server):
    """uvicorn, with the signals left to the process that owns them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """One listening page.

    Args:
        app: what answers.
        listening: a socket that listens already; the server owns it from now on.
        tally: counts its connections.
    """

    def __init__(self, app: ASGIApp, listening: socket.socket, tally: Tally | None = None) -> None:
        self.host, self.port = listening.getsockname()[:2]
        self._socket = listening
        protocol: Any = partial(Connection, tally=tally or Tally())
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer, in the running loop."""
        self._task = asyncio.create_task(self._serve(), name="trackside page")

    async def stop(self) -> None:
        """Stop answering and free the port; idempotent. Blocks: up to a few seconds, for answers under way."""
        self._server.should_exit = True
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=GRACE_S + 2)
            if not done:
                self._task.cancel()
        self._socket.close()

    async def _serve(self) -> None:
        try:
            await self._server.serve(sockets=[self._socket])
        except Exception:  # noqa: BLE001 - top of task
            log.exception("the page's server ended")
