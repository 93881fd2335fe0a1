"""The agent's link to the controller, and what the controller has to say on the job's terminal."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from trackside.errors import AddressError
from trackside.monitor.facts import host_facts, process_facts
from trackside.monitor.heir import Heir
from trackside.monitor.link import Link
from trackside.wire import messages
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.machine import machine_id
from trackside.wire.sweep import sweep

logger = logging.getLogger("trackside.launch")


class _AgentFeed:
    """What the link asks for; on the link's own thread."""

    def __init__(self, address: ControllerAddress, show: Callable[[str], None]) -> None:
        self._address = address
        self._show = show
        self._since = time.monotonic()
        self._url_line: str | None = None

    def locate(self) -> ControllerAddress | None:
        return self._address

    def collect(self, *, flush: bool) -> Iterable[messages.Upward]:
        return ()

    is_behind = False

    def leave(self, folder: Path, next_seq: int) -> list[Path]:
        return []

    def kept(self, next_seq: int) -> None:
        """Nothing waits for that."""

    def heartbeat(self) -> messages.Heartbeat | None:
        return messages.Heartbeat(sent_at=time.time(), uptime_seconds=time.monotonic() - self._since)

    def received(self, message: messages.Downward) -> None:
        if isinstance(message, messages.Welcome) and message.url_line:
            self._show_url(message.url_line)
        elif isinstance(message, messages.Say):
            self._show_url(message.line) if "://" in message.line else self._show(message.line)
        elif isinstance(message, messages.Refused):
            self._show(f"  warning    the controller does not take this launcher: {message.reason}")

    def turned(self) -> None:
        """Nothing to be done twice a second."""

    def _show_url(self, line: str) -> None:
        """The page's address comes with each welcome, and once more when the page is bound."""
        if line.strip() != self._url_line:
            self._url_line = line.strip()
            self._show(line)


class AgentUplink(Link):
    """The agent's link, which also delivers what its host's ranks left when they ended.

    A controller on the same machine looks for that itself.
    """

    def __init__(self, address: ControllerAddress, show: Callable[[str], None]) -> None:
        super().__init__("agent", None, lambda: (host_facts(), process_facts()), _AgentFeed(address, show))
        self._show = show
        self._is_controller_here = address.machine_id == machine_id()
        self._heir = Heir(address.run, self.send)

    def start(self) -> None:
        """As of any link; and sweep this host's memory, which the controller does on its own."""
        super().start()
        if not self._is_controller_here:
            threading.Thread(target=self._sweep, name="trackside-sweep", daemon=True).start()

    def _sweep(self) -> None:
        try:
            for moved in sweep():
                self._show(f"  left       {moved}")
        except Exception:  # noqa: BLE001 - top of thread
            logger.debug("what killed processes left in memory is not swept", exc_info=True)

    def inherit(self, pid: int) -> None:
        """This process has ended. Blocks: for the local disk. Threads: the agent's."""
        if not self._is_controller_here:
            self._heir.inherit(pid)

    def close(self, deadline_s: float, farewell: messages.Upward | None = None) -> bool:
        """As of any link; what ranks left goes when it is delivered."""
        is_whole = super().close(deadline_s, farewell)
        if is_whole:
            self._heir.settle()
        return is_whole


def connect(address: str, show: Callable[[str], None]) -> AgentUplink | None:
    """Open the agent's link; None when the address cannot be read.

    Args:
        address: As the environment holds it.
        show: Prints a line on the job's terminal.

    Blocks: never; what is sent before the controller answers is kept.
    """
    try:
        link = AgentUplink(parse_address(address), show)
    except AddressError as error:
        show(f"  warning    {error}")
        return None
    link.start()
    return link
