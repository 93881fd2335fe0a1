"""The scheduler's count of waiting for a core: of the right thread, and of nobody's file."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.monitor.phases import cores
from trackside.monitor.phases.cores import LOOK_S, CoreWait, waited_ns

KEEPS_COUNTS = Path("/proc/thread-self/schedstat").exists()


def counts(wait: CoreWait) -> int:
    text = wait.read()
    assert text is not None
    known = waited_ns(text)
    assert known is not None
    return known


@pytest.mark.skipif(not KEEPS_COUNTS, reason="this kernel does not count")
def test_a_thread_reads_its_own_count_and_a_sleep_is_none() -> None:
    wait, cpu_ns = CoreWait(), []
    before = counts(wait)
    began = time.monotonic_ns()
    while time.thread_time_ns() == 0 or time.monotonic_ns() - began < 5_000_000:
        pass
    spent = time.monotonic_ns() - began
    assert 0 <= counts(wait) - before <= spent

    def other() -> None:
        cpu_ns.append(int((wait.read() or b"0").split()[0]))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert cpu_ns[0] < int((wait.read() or b"0").split()[0]), "a thread that has just begun"
    wait.close()
    wait.close()


@pytest.mark.skipif(not KEEPS_COUNTS, reason="this kernel does not count")
def test_of_short_steps_only_some_are_looked_at() -> None:
    wait, looked = CoreWait(), []
    for at in range(8):
        turned = wait.turn(at * LOOK_S / 4)
        looked.append(None if turned is None else turned[1])
    assert looked == [True, False, None, None, True, False, None, None]
    turned = [wait.turn(100.0 + at) for at in range(3)]
    assert [one is not None and one[1] for one in turned] == [True, True, True]
    wait.close()


def test_a_system_that_keeps_no_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cores, "_ABOUT", str(tmp_path / "none"))
    assert (CoreWait().read(), CoreWait().turn(0.0)) == (None, None)
    assert [waited_ns(text) for text in (b"", b"7", b"1 x 3", b"1 2 3\n")] == [None, None, None, 2]


@pytest.mark.skipif(not KEEPS_COUNTS, reason="this kernel does not count")
def test_a_script_that_closes_every_file_keeps_its_own(tmp_path: Path) -> None:
    wait, ours = CoreWait(), opened()
    os.close(ours(wait))
    assert wait.read() is None
    wait, ours = CoreWait(), opened()
    number = ours(wait)
    os.close(number)
    theirs = os.open(tmp_path, os.O_RDONLY)
    os.dup2(theirs, number)
    try:
        wait.close()
        os.fstat(number)
    finally:
        for file in {theirs, number}:
            os.close(file)


def opened() -> Callable[[CoreWait], int]:
    """Says which file a first reading opens."""
    before = {entry.name for entry in list(Path("/proc/self/fd").iterdir()) if entry.exists()}

    def look(wait: CoreWait) -> int:
        counts(wait)
        (number,) = [
            int(entry.name)
            for entry in list(Path("/proc/self/fd").iterdir())
            if entry.name not in before and entry.exists() and "schedstat" in str(entry.readlink())
        ]
        return number

    return look
