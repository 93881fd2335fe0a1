"""How processes ended that somebody else waits for."""

import os
import signal
import subprocess
import sys

import pytest

from trackside.controller.exits import Ended, how_it_ended, open_process

pytestmark = pytest.mark.usefixtures("leak_check")


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("raise SystemExit(3)", Ended(exit_code=3)),
        ("pass", Ended(exit_code=0)),
        ("import os; os.kill(os.getpid(), 15)", Ended(signal="SIGTERM")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)", Ended(signal=f"SIG{signal.SIGRTMIN + 3}")),
    ],
)
def test_d40_the_kernel_tells_even_after_the_parent_has_taken_it(code: str, ended: Ended) -> None:
    child = start("input_ = __import__('sys').stdin.readline();" + code)
    descriptor = open_process(child.pid)
    assert descriptor is not None
    child.wait()
    if not can_tell(descriptor):
        pytest.skip("this kernel is older than 6.15")
    assert how_it_ended(child.pid, descriptor) == ended
    os.close(descriptor)


def can_tell(descriptor: int) -> bool:
    return how_it_ended(0, descriptor) != Ended()


def test_d40_on_an_older_kernel_a_zombie_still_tells() -> None:
    child = start("import os; os.kill(os.getpid(), 15)")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert how_it_ended(child.pid, None) == Ended(signal="SIGTERM")
    child.wait()
    assert how_it_ended(child.pid, None) == Ended()


def test_d40_a_process_that_runs_has_not_ended() -> None:
    descriptor = open_process(os.getpid())
    assert how_it_ended(os.getpid(), descriptor) == Ended()
    assert descriptor is not None
    os.close(descriptor)
    assert open_process(2**22 + 1) is None
