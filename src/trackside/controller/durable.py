"""What is on the disk, told to those who wait for it."""

from collections.abc import Callable, Mapping

import msgspec

from trackside.wire import messages


class DurableMarks:
    """Highest durable sequence of every session; acknowledges, and completes welcomes.

    Args:
        send: sends a message to a session.
        machine_id: of the controller.

    Threads: the event loop's only.
    """

    def __init__(self, send: Callable[[bytes, messages.Downward], None], machine_id: str) -> None:
        self._send = send
        self._machine_id = machine_id
        self._marks: dict[bytes, int] = {}
        self._welcomes: dict[bytes, messages.Welcome] = {}

    @property
    def marks(self) -> Mapping[bytes, int]:
        """Highest durable sequence of every session."""
        return self._marks

    def note(self, marks: Mapping[bytes, int], *, acknowledge: bool = True) -> None:
        """The store has committed up to these sequences."""
        for session, seq in marks.items():
            if seq > self._marks.get(session, 0):
                self._marks[session] = seq
                if acknowledge:
                    self._send(session, messages.Ack(durable_seq=seq))

    def welcome(self, session: bytes, message: messages.Welcome) -> None:
        """Answer a hello, with what the state machine cannot know."""
        self._welcomes[session] = message
        durable = self._marks.get(session, 0)
        self._send(session, msgspec.structs.replace(message, durable_seq=durable, machine_id=self._machine_id))

    def ask_again(self, session: bytes) -> None:
        """Have a session send again all that is not durable: another welcome says so."""
        message = self._welcomes.get(session)
        if message is not None:
            self.welcome(session, message)
