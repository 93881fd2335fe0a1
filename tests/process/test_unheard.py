"""A script that is killed before it knows where its controller is: what it logged is its run's all the same."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.job import Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
SCRIPT = """
import os, time
import trackside

mon = trackside.Monitor()
for step in range(50):
    mon.log({"loss": step / 7}, step=step)
time.sleep(0.1)  # a controller takes several times as long to listen
for step in range(50, 60):
    mon.log({"loss": step / 7}, step=step)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def killed(scratch: Path) -> Iterator[Job]:
    (scratch / "train.py").write_text(SCRIPT)
    job = Job([sys.executable, "train.py"], scratch)
    yield job
    job.close()


def test_d43_what_was_logged_before_the_controller_was_there_is_in_the_run(killed: Job) -> None:
    assert killed.wait() == -9
    wait_for((killed.folder() / "sealed.bin").exists, 60, "the end of the run")
    points, document = killed.points(), killed.document()
    assert points["step"].tolist() == list(range(60))
    assert (document["state"], document["step"], document["ranks"]["failed"]) == ("failed", 59, 1)
    assert "ended without a word, last step 59" in next(
        e["text"] for e in killed.events() if e["kind"] == "rank failed"
    )
