"""Exits are seen at once, whoever waits for the process first."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from trackside.launch.workers import Exit, Worker, WorkerWatch, exit_of
from trackside.wire.messages import Identity


def worker(process: subprocess.Popen[bytes], rank: int = 0) -> Worker:
    identity = Identity(rank=rank, local_rank=rank, world_size=2)
    return Worker(identity=identity, pid=process.pid, returncode=lambda: process.returncode)


def started(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)
    if process.stdin:
        process.stdin.close()


@pytest.fixture
def watch() -> Iterator[WorkerWatch]:
    made = WorkerWatch()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("code", "expected", "shell"),
    [
        ("pass", Exit(exit_code=0), 0),
        ("raise SystemExit(3)", Exit(exit_code=3), 3),
        ("import os; os.kill(os.getpid(), 9)", Exit(signal="SIGKILL"), 137),
        ("import os; os.kill(os.getpid(), 15)", Exit(signal="SIGTERM"), 143),
    ],
)
def test_b30_code_or_signal_is_known_and_the_exit_is_left_to_its_owner(
    watch: WorkerWatch, code: str, expected: Exit, shell: int
) -> None:
    process = started(code)
    watch.add(worker(process))
    ended = watch.wait(20)
    assert [found for _, found in ended] == [expected]
    assert expected.shell_code == shell
    assert process.returncode is None, "nobody has waited for it yet"
    assert process.wait(5) == (expected.exit_code if expected.exit_code is not None else 128 - shell)
    finish(process)


def test_an_exit_that_was_taken_is_read_from_the_record(watch: WorkerWatch) -> None:
    process = started("raise SystemExit(4)")
    process.wait(20)
    watch.add(worker(process))
    assert [found for _, found in watch.wait(5)] == [Exit(exit_code=4)]
    finish(process)


def test_a_process_nobody_recorded_ends_unknown(watch: WorkerWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.launch.workers._RECORD_S", 0.05)
    process = started("pass")
    process.wait(20)
    identity = Identity(rank=0, local_rank=0, world_size=1)
    lost = Worker(identity=identity, pid=process.pid, returncode=lambda: None)
    watch.add(lost)
    assert exit_of(lost) is None
    assert watch.wait(10) == [(lost, Exit())]
    assert Exit().shell_code == 1
    finish(process)


def test_waiting_ends_at_the_exit_and_not_later(watch: WorkerWatch) -> None:
    stays, leaves = started("input()"), started("input()")
    watch.add(worker(stays, 0))
    watch.add(worker(leaves, 1))
    assert watch.wait(0.01) == []
    began = time.monotonic()
    leaves.kill()
    assert [(found.identity.rank, how) for found, how in watch.wait(20)] == [(1, Exit(signal="SIGKILL"))]
    assert time.monotonic() - began < 15
    assert [running.identity.rank for running in watch.running()] == [0]
    finish(stays)
    finish(leaves)


def test_seen_in_one_look_the_cause_comes_before_the_consequence(watch: WorkerWatch) -> None:
    ended, failed = started("input()"), started("raise SystemExit(3)")
    ended.terminate()
    ended.wait(10)
    failed.wait(20)
    watch.add(worker(ended, 0))
    watch.add(worker(failed, 1))
    assert [how for _, how in watch.wait(5)] == [Exit(exit_code=3), Exit(signal="SIGTERM")]
    finish(ended)
    finish(failed)


def test_without_pidfd_processes_are_polled(watch: WorkerWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_pid: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", forbidden)
    process = started("raise SystemExit(5)")
    watch.add(worker(process))
    assert [found for _, found in watch.wait(20)] == [Exit(exit_code=5)]
    finish(process)
