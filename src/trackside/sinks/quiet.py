"""A sink that does nothing: what ours are derived from, so that each says only what it does."""

from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord


class QuietSink:
    """Takes every call of a `Sink` and ignores it."""

    name = "quiet"

    def register_port(self, port: int | None) -> None:
        """A wish for a page."""

    def set_graph(self, svg: str | None, graph: object | None, label: str | None, hash: str | None) -> None:
        """The model's picture was set."""

    def set_metadata(self, text: str) -> None:
        """The metadata changed."""

    def set_hardware(self, text: str) -> None:
        """The hardware line changed."""

    def push_resources(self, record: ResourceRecord) -> None:
        """A resource sample."""

    def push_window(self, batch: PointBatch) -> None:
        """New values."""

    def push_epoch(self, record: EpochRecord) -> None:
        """An epoch is new or amended."""

    def push_event(self, record: EventRecord, is_new: bool) -> None:
        """An event is new or amended."""

    def push_run(self) -> None:
        """The run document or rank entries changed."""

    async def shut_down(self) -> None:
        """The run is over."""
