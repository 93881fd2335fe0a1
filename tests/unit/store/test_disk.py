"""Calls that wait for a disk: waited for so long, and nobody waits behind one that does not come back."""

import asyncio
import threading

import pytest

from tests.process.job import wait_for
from trackside.errors import DiskSilentError
from trackside.store import DiskThreads

pytestmark = pytest.mark.usefixtures("leak_check")


def test_answers_and_errors_come_back() -> None:
    def fail() -> None:
        raise FileNotFoundError("gone")

    async def scene() -> None:
        disk = DiskThreads("test", 2)
        assert await asyncio.gather(*(disk.ask(lambda n=n: n * n) for n in range(20))) == [n * n for n in range(20)]
        with pytest.raises(FileNotFoundError, match="gone"):
            await disk.ask(fail)
        assert disk.close()
        with pytest.raises(DiskSilentError):
            await disk.ask(lambda: 1)

    asyncio.run(scene())


def test_a_call_that_hangs_delays_neither_the_others_nor_the_end_and_all_is_well_when_it_is_back() -> None:
    back = threading.Event()

    async def scene() -> None:
        disk = DiskThreads("test", 2, limit_s=0.05)
        for _ in range(2):
            with pytest.raises(DiskSilentError):
                await disk.ask(back.wait)
            assert await disk.ask(lambda: "other") == "other" if not disk.is_silent else True
        assert disk.is_silent
        with pytest.raises(DiskSilentError):
            await disk.ask(lambda: "never begun")
        back.set()
        await asyncio.to_thread(wait_for, lambda: not disk.is_silent, 10, "the disk is back")
        assert await disk.ask(lambda: "well") == "well"
        back.clear()
        with pytest.raises(DiskSilentError):
            await disk.ask(back.wait)
        assert not disk.close(0.05)
        back.set()
        assert disk.close()

    asyncio.run(scene())
