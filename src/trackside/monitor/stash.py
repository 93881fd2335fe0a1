"""What is set before the link is up: kept once per process, sent once, in a fixed order."""

import threading
from dataclasses import dataclass, field

from trackside.wire import messages


@dataclass(slots=True)
class Stash:
    """Slots for a port, the model, metadata and hardware; the last write of a slot wins.

    Threads: any; the lock lets a signal handler in that interrupts its own thread.
    """

    _lock: threading.RLock = field(default_factory=threading.RLock)
    _port: messages.PortWish | None = None
    _graph: messages.SetGraph | None = None
    _metadata: messages.SetMetadata | None = None
    _watched: messages.SetMetadata | None = None
    _hardware: messages.SetHardware | None = None
    _is_empty: bool = True
    wants_page: bool = False
    """Whether a page was wished for, sent by now or not."""

    def put(self, message: messages.Upward) -> bool:
        """Keep a message in its slot; return whether it has one."""
        with self._lock:
            self._is_empty = False
            if isinstance(message, messages.PortWish):
                self._port = message
                self.wants_page = True
            elif isinstance(message, messages.SetGraph):
                self._graph = _merge_graph(self._graph, message)
            elif isinstance(message, messages.SetMetadata):
                if message.text is not None:
                    self._metadata = message
                if message.watched is not None:
                    self._watched = message
            elif isinstance(message, messages.SetHardware):
                self._hardware = message
            else:
                return False
            return True

    def drain(self) -> list[messages.Upward]:
        """Everything, in the order register, graph, metadata, hardware; a second drain yields nothing."""
        if self._is_empty:
            return []
        with self._lock:
            self._is_empty = True
            slots: list[messages.Upward | None] = [
                self._port,
                self._graph,
                self._watched,
                self._metadata,
                self._hardware,
            ]
            self._port = self._graph = self._metadata = self._watched = self._hardware = None
        return [message for message in slots if message is not None]


def _merge_graph(kept: messages.SetGraph | None, new: messages.SetGraph) -> messages.SetGraph:
    """The new drawing with the old label and hash where the new one names none."""
    if kept is None:
        return new
    has_graph = bytes(new.graph) != b"\xc0"
    return messages.SetGraph(
        svg=new.svg if new.svg is not None or has_graph else kept.svg,
        graph=new.graph if has_graph or new.svg is not None else kept.graph,
        label=new.label if new.label is not None else kept.label,
        hash=new.hash if new.hash is not None else kept.hash,
    )
