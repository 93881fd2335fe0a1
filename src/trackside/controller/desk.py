"""What the controller itself does about an instruction."""

import asyncio
from collections.abc import Callable

import msgspec

from trackside.controller.document import DocumentWriter
from trackside.controller.durable import DurableMarks
from trackside.controller.source import LiveSource
from trackside.ingest.listener import Listener
from trackside.run.machine import RunMachine
from trackside.run.topology import primary_session
from trackside.server.hub import Hub
from trackside.sinks.svg import clean_svg
from trackside.sinks.terminal import TerminalSink
from trackside.store import StoreWriter
from trackside.wire.messages import Downward, Reduction, Say, Welcome


class ControllerDesk:
    """Sends, names, prints, keeps the small files current.

    Args:
        machine: of the run.
        listener: sends to sessions.
        durable: completes welcomes.
        source: learns names and the clean picture.
        hub: the same.
        writer: keeps files.
        document: is told when something changed.
        terminal: prints lines here as well; None: only the job's own terminal gets them.
        completed: called when the run is over.

    Threads: the event loop's only.
    """

    def __init__(
        self,
        *,
        machine: RunMachine,
        listener: Listener,
        durable: DurableMarks,
        source: LiveSource,
        hub: Hub,
        writer: StoreWriter,
        document: DocumentWriter,
        terminal: TerminalSink | None,
        completed: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._listener = listener
        self._durable = durable
        self._source = source
        self._hub = hub
        self._writer = writer
        self._document = document
        self._terminal = terminal
        self._completed = completed
        self._graph: object | None = None
        self._svg: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def reply(self, session: bytes, message: Downward) -> None:
        if isinstance(message, Welcome):
            self._durable.welcome(session, message)
        else:
            self._listener.send(session, message)

    def define_metric(self, metric: int, name: str, reduction: Reduction) -> None:
        self._source.define_metric(name, reduction)
        self._hub.define_metric(metric, name, reduction)

    def define_rank(self, rank: int, generation: int, path: str) -> None:
        self._hub.define_rank()

    def run_changed(self) -> None:
        self._document.change()

    def graph_set(self, svg: str | None, graph: object | None) -> None:
        if graph is not None and graph is not self._graph:
            self._graph = graph
            self._writer.write_file(self._writer.folder.graph, msgspec.json.encode(graph))
        if svg and svg != self._svg:
            self._svg = svg
            task = asyncio.get_running_loop().create_task(self._clean(svg))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def print_line(self, line: str) -> None:
        """Print on the job's terminal: the launcher's if there is one, else the primary rank's."""
        if self._terminal is not None:
            self._terminal.print_line(line)
        session = self._speaker()
        if session is not None:
            self._listener.send(session, Say(line=line))

    def complete(self) -> None:
        self._completed()

    async def settle(self) -> None:
        """Wait for what is still being prepared."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _speaker(self) -> bytes | None:
        sessions = self._machine.state.sessions
        agent = next((key for key, known in sessions.items() if known.role == "agent" and known.is_open), None)
        if agent is not None:
            return agent
        primary = primary_session(self._machine.state)
        return primary if primary in sessions and sessions[primary].is_open else None

    async def _clean(self, svg: str) -> None:
        """A drawing may be large: it is cleaned beside the loop."""
        cleaned = await asyncio.to_thread(clean_svg, svg)
        if cleaned is not None and svg == self._svg:
            self._source.set_svg(cleaned)
            self._writer.write_file(self._writer.folder.svg, cleaned.encode())
            self._hub.push_run()
