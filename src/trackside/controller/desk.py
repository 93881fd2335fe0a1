"""What the controller itself does about an instruction."""

from collections.abc import Callable

from trackside.controller.document import DocumentWriter
from trackside.controller.durable import DurableMarks
from trackside.controller.model import ModelFiles
from trackside.controller.source import LiveSource
from trackside.ingest.listener import Listener
from trackside.run.machine import RunMachine
from trackside.run.topology import primary_session
from trackside.server.hub import Hub
from trackside.sinks.terminal import TerminalSink
from trackside.store import StoreWriter
from trackside.wire.messages import Downward, Reduction, Say, Welcome

MOST_UNSAID = 100


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
        self._unsaid: list[str] = []
        """Lines for a terminal that is not there yet: a launcher may take longer to say hello than we to find a port taken."""
        self._model = ModelFiles(
            read=machine.graph,
            write_graph=lambda content: writer.write_file(writer.folder.graph, content),
            write_picture=lambda content: writer.write_file(writer.folder.svg, content),
            show=self._show_picture,
        )

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

    def tick(self, mono: float) -> None:
        """Keep the files current."""
        self._document.write_if_due(mono)
        self._model.write_if_due(mono)
        self._say()

    def graph_set(self, svg: str | None, graph: object | None) -> None:
        self._model.set(svg)

    @property
    def can_print(self) -> bool:
        """Whether there is a terminal by now."""
        return self._terminal is not None or self._speaker() is not None

    def print_line(self, line: str) -> None:
        """Print on the job's terminal: the launcher's if there is one, else the primary rank's."""
        if self._terminal is not None:
            self._terminal.print_line(line)
        if len(self._unsaid) < MOST_UNSAID and (self._terminal is None or self._speaker() is not None):
            self._unsaid.append(line)
        self._say()

    def complete(self) -> None:
        self._completed()

    async def settle(self) -> None:
        """Wait for what is still being prepared."""
        await self._model.settle()

    def _say(self) -> None:
        """Have printed what waits, once there is somebody who can."""
        session = self._speaker() if self._unsaid else None
        if session is not None:
            for line in self._unsaid:
                self._listener.send(session, Say(line=line))
            self._unsaid = []

    def _speaker(self) -> bytes | None:
        sessions = self._machine.state.sessions
        agent = next((key for key, known in sessions.items() if known.role == "agent" and known.is_open), None)
        if agent is not None:
            return agent
        primary = primary_session(self._machine.state)
        return primary if primary in sessions and sessions[primary].is_open else None

    def _show_picture(self, picture: str) -> None:
        self._source.set_svg(picture)
        self._hub.push_run()
