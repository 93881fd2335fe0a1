"""A rank's failure is told when what it left has been taken in, and nothing that its launcher says overtakes it."""

import asyncio
from collections.abc import Sequence

from trackside.controller.farewell import Farewells
from trackside.run.inputs import Input, MessageArrived, Ticked
from trackside.wire import messages

AGENT, OTHER, RANK = b"agent", b"other", b"rank"


def exited(rank: int, code: int = 1) -> MessageArrived:
    return MessageArrived(AGENT, messages.WorkerExited(rank=rank, generation=0, time=0.0, exit_code=code))


def ended(agent: bytes = AGENT) -> MessageArrived:
    return MessageArrived(agent, messages.JobEnded(exit_code=1, time=0.0))


class Bench:
    """Farewells whose taking in is opened by a test."""

    def __init__(self, *here: int) -> None:
        self.asked: list[list[bytes]] = []
        self.told: list[Input] = []
        self.taken = asyncio.Event()
        self.farewells = Farewells(lambda gone: RANK if gone.rank in here else None, self._take_in, self._tell)

    async def _take_in(self, sessions: list[bytes]) -> None:
        self.asked.append(sessions)
        await self.taken.wait()

    def _tell(self, happened: Sequence[Input]) -> None:
        self.told += happened


def test_what_an_agent_says_from_a_failure_on_waits_in_its_order() -> None:
    async def play() -> None:
        bench = Bench(0, 1)
        first, second, end, others = exited(0), exited(1), ended(), ended(OTHER)
        assert bench.farewells.pass_on([Ticked(), first, others]) == [Ticked(), others]
        assert bench.farewells.pass_on([second, end]) == []
        await asyncio.sleep(0)
        bench.taken.set()
        await bench.farewells.settle()
        assert bench.told == [first, second, end]
        assert bench.asked[0] == [RANK] * len(bench.asked[0])
        assert bench.farewells.pass_on([end]) == [end]

    asyncio.run(play())


def test_a_good_end_and_one_elsewhere_are_told_at_once() -> None:
    async def play() -> None:
        bench = Bench(0)
        events = [exited(0, code=0), exited(5)]
        assert bench.farewells.pass_on(events) == events

    asyncio.run(play())


def test_a_checkpoint_holds_all_that_was_said() -> None:
    async def play() -> None:
        bench = Bench(0)
        bench.farewells.pass_on([first := exited(0), end := ended()])
        await asyncio.sleep(0)
        bench.farewells.flush()
        assert bench.told == [first, end]
        bench.taken.set()
        await bench.farewells.settle()
        assert bench.told == [first, end]

    asyncio.run(play())
