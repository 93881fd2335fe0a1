"""Delivers what sessions of the same run left on this machine, where its controller is on another."""

import logging
from collections.abc import Callable, Iterator

from trackside.errors import TracksideError
from trackside.wire import messages
from trackside.wire.estate import Estate, find_estates, frames_of, remove

logger = logging.getLogger("trackside.monitor")

MESSAGE_BYTES = 4 * 1024 * 1024


class Heir:
    """Looks for estates, sends them over its own link, and removes them once they are delivered.

    Args:
        run: Id of the run.
        send: Queues a message on the link.

    Threads: one at a time. Blocks: for the local disk.
    """

    def __init__(self, run: str, send: Callable[[messages.Upward], None]) -> None:
        self._run, self._send = run, send
        self._sent: dict[bytes, Estate] = {}
        self._before: dict[bytes, int] = {}
        """Of what was sent: its frames have lower sequences."""

    def inherit(self, pid: int | None = None) -> None:
        """Take over what has been left. `pid`: by this process alone. Raises: never."""
        try:
            for estate in find_estates(self._run):
                session = estate.hello.session
                if session not in self._sent and pid in (None, estate.hello.process.pid):
                    for frames in _in_pieces(estate):
                        self._send(messages.Left(session=session, frames=frames))
                    self._sent[session] = estate
        except (OSError, TracksideError) as error:
            logger.debug("trackside: what was left here was not taken over: %s", error)

    def turned(self, oldest_seq: int, next_seq: int) -> None:
        """What was sent is among the link's frames by now; remove what has been delivered, whatever came behind it.

        Args:
            oldest_seq: Of the oldest frame that is not durable.
            next_seq: Of the next frame.
        """
        for session in list(self._sent):
            if oldest_seq >= self._before.setdefault(session, next_seq):
                self._settle(session)

    def settle(self) -> None:
        """All that was sent has been delivered."""
        for session in list(self._sent):
            self._settle(session)

    def _settle(self, session: bytes) -> None:
        remove(self._sent.pop(session))
        self._before.pop(session, None)


def _in_pieces(estate: Estate) -> Iterator[list[bytes]]:
    """Frames of a few mebibytes at a time, each time behind the hello."""
    frames = frames_of(estate)
    hello = next(frames)
    piece, size = [hello], 0
    for frame in frames:
        if size + len(frame) > MESSAGE_BYTES and size:
            yield piece
            piece, size = [hello], 0
        piece.append(frame)
        size += len(frame)
    yield piece
