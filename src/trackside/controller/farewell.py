"""A rank's end is told when all that it left is taken in: what it is said to have reached last is then what the points say."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from trackside.run.inputs import Input, MessageArrived
from trackside.wire.messages import WorkerExited

log = logging.getLogger("trackside.controller")


class Farewells:
    """Holds back what a launcher's agent says from a rank's failure on, until what the rank left on this machine is taken in.

    Args:
        left_by: session of the rank that has ended, where its process is one of this machine; None: nothing is to be taken in.
        take_in: takes in what sessions left; bounded in time.
        apply: takes inputs that were held back.

    Threads: the event loop's only.
    """

    def __init__(
        self,
        left_by: Callable[[WorkerExited], bytes | None],
        take_in: Callable[[list[bytes]], Awaitable[object]],
        apply: Callable[[Sequence[Input]], None],
    ) -> None:
        self._left_by, self._take_in, self._apply = left_by, take_in, apply
        self._held: dict[bytes, deque[MessageArrived]] = {}
        """What each agent has said meanwhile."""
        self._tasks: set[asyncio.Task[None]] = set()

    def pass_on(self, happened: Sequence[Input]) -> list[Input]:
        """What may be told now."""
        return [event for event in happened if not (isinstance(event, MessageArrived) and self._holds(event))]

    def flush(self) -> None:
        """Tell everything now."""
        for waiting in list(self._held.values()):
            self._tell(waiting, len(waiting))

    async def settle(self) -> None:
        """Wait until nothing is held back. Blocks: as `take_in` does."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _holds(self, event: MessageArrived) -> bool:
        waiting = self._held.get(event.session)
        if waiting is not None:
            waiting.append(event)
            return True
        if self._session_of(event) is None:
            return False
        self._held[event.session] = deque([event])
        task = asyncio.get_running_loop().create_task(self._release(event.session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _session_of(self, event: MessageArrived) -> bytes | None:
        message = event.message
        return self._left_by(message) if isinstance(message, WorkerExited) and message.exit_code != 0 else None

    async def _release(self, agent: bytes) -> None:
        waiting = self._held[agent]
        while waiting:
            count = len(waiting)
            try:
                await self._take_in([session for event in waiting if (session := self._session_of(event)) is not None])
            except Exception:  # noqa: BLE001 - top of task
                log.exception("what ended ranks left was not taken in")
            self._tell(waiting, count)
        del self._held[agent]

    def _tell(self, waiting: deque[MessageArrived], count: int) -> None:
        while waiting and count:
            count -= 1
            self._apply([waiting.popleft()])
