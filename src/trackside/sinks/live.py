"""The live page as a sink: hands everything to the hub that feeds the open pages."""

from typing import Protocol

from trackside.sinks.quiet import QuietSink
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord


class Broadcast(Protocol):
    """What feeds the open pages."""

    def push_window(self, batch: PointBatch) -> None: ...
    def push_epoch(self, record: EpochRecord) -> None: ...
    def push_event(self, record: EventRecord) -> None: ...
    def push_resources(self, record: ResourceRecord) -> None: ...
    def push_run(self) -> None: ...
    def complete(self) -> None: ...


class Page(Protocol):
    """What can begin to listen."""

    def open(self, port: int | None) -> None:
        """Listen, or say why not. Blocks: never."""
        ...


class LiveSink(QuietSink):
    """Feeds the open pages, and opens the port when the first wish arrives.

    Args:
        broadcast: feeds them.
        page: listens; None: never, `--no-page`.
    """

    name = "live page"

    def __init__(self, broadcast: Broadcast, page: Page | None) -> None:
        self._broadcast = broadcast
        self._page = page

    def register_port(self, port: int | None) -> None:
        if self._page is not None:
            self._page.open(port)

    def push_resources(self, record: ResourceRecord) -> None:
        self._broadcast.push_resources(record)

    def push_window(self, batch: PointBatch) -> None:
        self._broadcast.push_window(batch)

    def push_epoch(self, record: EpochRecord) -> None:
        self._broadcast.push_epoch(record)

    def push_event(self, record: EventRecord, is_new: bool) -> None:
        self._broadcast.push_event(record)

    def push_run(self) -> None:
        self._broadcast.push_run()

    async def shut_down(self) -> None:
        self._broadcast.complete()
