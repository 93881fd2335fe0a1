"""The end of a run, in its order: last records, the page told, the report written, the store closed, the port freed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from trackside.controller.desk import ControllerDesk
from trackside.controller.document import DocumentWriter, HeatWriter
from trackside.controller.intake import Intake
from trackside.controller.website import Website
from trackside.errors import TracksideError
from trackside.server.hub import Hub
from trackside.sinks.protocol import Sink
from trackside.store import RunFolder, StoreWriter

log = logging.getLogger("trackside.controller")

SINK_S = 30.0
"""How long one sink may take to end."""
STORE_S = 30.0
LINGER_S = 1.5
"""How long an open page may still fetch what it has not got yet."""


class Ending(msgspec.Struct, kw_only=True):
    """Ends one run."""

    folder: RunFolder
    take_in: Callable[[], Awaitable[None]]
    """Takes in what ranks left on the disk."""
    intake: Intake
    seal: Callable[[], Callable[[], None]]
    """Ends the taking in; what it returns writes down for later what was known then."""
    apply: Callable[[], None]
    """Applies what the frame reader has."""
    sinks: Sequence[Sink]
    failed: Callable[[str, str], None]
    desk: ControllerDesk
    document: DocumentWriter
    heat: HeatWriter
    writer: StoreWriter
    hub: Hub
    website: Website
    release: Callable[[], None]
    """Lets the run folder go."""
    hold: bool
    """Whether the page stays until `hurry`."""
    hurry: asyncio.Event
    """Set by a second signal: wait for nobody."""

    async def run(self) -> None:
        """Do it."""
        await self.take_in()
        self.apply()
        await self.desk.settle()
        for sink in self.sinks:
            await self._shut_down(sink)
        self.apply()
        self.document.write_now()
        self.heat.write_now()
        write_seal = self.seal()
        is_whole = await asyncio.to_thread(self.writer.close, clean=True, deadline_seconds=STORE_S)
        if is_whole:
            await self.intake.remove_all(write_seal)
            self.release()
        else:
            log.error("the run folder %s did not take everything; its journal is kept", self.folder.path)
        await self._keep_page()
        await self.website.close()

    async def _shut_down(self, sink: Sink) -> None:
        try:
            async with asyncio.timeout(SINK_S):
                await sink.shut_down()
        except TimeoutError:
            log.warning("the %s did not end within %.0f s", sink.name, SINK_S)
            self.failed(sink.name, f"it did not end within {SINK_S:.0f} s")
        except TracksideError as error:
            log.warning("the %s: %s", sink.name, error)
            self.failed(sink.name, str(error))
        except Exception as error:  # noqa: BLE001 - top of task
            log.exception("the sink %s failed to end", sink.name)
            self.failed(sink.name, f"{type(error).__name__}: {error}")

    async def _keep_page(self) -> None:
        if not self.website.is_open:
            return
        seconds = None if self.hold else LINGER_S if self.hub.client_count else 0.0
        try:
            async with asyncio.timeout(seconds):
                await self.hurry.wait()
        except TimeoutError:
            return
