"""The model in the run folder and on the page: `graph.json` kept current, and a picture of it."""

import asyncio
from collections.abc import Callable

import msgspec

from trackside.wire.documents import GraphDocument

PAUSE_S = 5.0
"""The least time between two writings of new figures; a new structure is written at once."""


class ModelFiles:
    """Writes the graph and its picture when they have changed.

    Args:
        read: the run's graph as it is now; the same object while nothing has changed.
        write_graph: takes the content of `graph.json`.
        write_picture: takes the content of `graph.svg`.
        show: takes the picture that is served.

    Threads: the event loop's only; drawing and cleaning run beside it.
    """

    def __init__(
        self,
        *,
        read: Callable[[], GraphDocument | None],
        write_graph: Callable[[bytes], None],
        write_picture: Callable[[bytes], None],
        show: Callable[[str], None],
    ) -> None:
        self._read = read
        self._write_graph = write_graph
        self._write_picture = write_picture
        self._show = show
        self._written: GraphDocument | None = None
        self._given: str | None = None
        self._due = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    def set(self, svg: str | None) -> None:
        """The graph, or the user's own picture, was set; the user's is shown where both are there."""
        if svg and svg != self._given:
            self._given = svg
            self._begin(self._clean(svg))
        self.write_now()

    def write_if_due(self, mono: float) -> None:
        """Write new figures when enough time has passed."""
        if mono >= self._due and self._read() is not self._written:
            self._due = mono + PAUSE_S
            self.write_now()

    def write_now(self) -> None:
        """Write what is not written yet."""
        graph = self._read()
        if graph is None or graph is self._written:
            return
        self._written = graph
        self._write_graph(msgspec.json.encode(graph))
        if self._given is None:
            self._begin(self._draw(graph))

    async def settle(self) -> None:
        """Write what has changed and wait for what is still being prepared. Blocks: up to 5 s."""
        self.write_now()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _begin(self, work: "asyncio.Future[None] | object") -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _clean(self, svg: str) -> None:
        """A drawing may be large."""
        cleaned = await asyncio.to_thread(_cleaned, svg)
        if cleaned is not None and svg == self._given:
            self._take(cleaned)

    async def _draw(self, graph: GraphDocument) -> None:
        cleaned = await asyncio.to_thread(_drawn, graph)
        if cleaned is not None and self._given is None and graph is self._written:
            self._take(cleaned)

    def _take(self, picture: str) -> None:
        self._show(picture)
        self._write_picture(picture.encode())


def _cleaned(svg: str) -> str | None:
    from trackside.sinks.svg import clean_svg  # here: a run without a picture needs none of it

    return clean_svg(svg)


def _drawn(graph: GraphDocument) -> str | None:
    from trackside.sinks.picture import draw

    return _cleaned(draw(graph))
