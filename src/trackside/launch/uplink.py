"""The agent's link to the controller, and what the controller has to say on the job's terminal."""

import time
from collections.abc import Callable, Iterable

from trackside.errors import AddressError
from trackside.monitor.facts import host_facts, process_facts
from trackside.monitor.link import Link
from trackside.wire import messages
from trackside.wire.address import ControllerAddress, parse_address


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


def connect(address: str, show: Callable[[str], None]) -> Link | None:
    """Open the agent's link; None when the address cannot be read.

    Args:
        address: As the environment holds it.
        show: Prints a line on the job's terminal.

    Blocks: never; what is sent before the controller answers is kept.
    """
    try:
        feed = _AgentFeed(parse_address(address), show)
    except AddressError as error:
        show(f"  warning    {error}")
        return None
    link = Link("agent", None, lambda: (host_facts(), process_facts()), feed)
    link.start()
    return link
