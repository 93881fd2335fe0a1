"""A script that logs faster than anything can be encoded, and then ends: what waits is left as it is, not lost."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.job import Job, wait_for

CALLS = 150_000
SCRIPT = f"""
import trackside
from trackside.monitor import runtime

runtime.DELIVER_S = 0.05  # as on a machine that is busy with more than this
mon = trackside.Monitor()
for i in range({CALLS}):
    mon.log({{"a": i, "b": 0.5}})
mon.finish()
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "train.py").write_text(SCRIPT)
    job = Job([sys.executable, "train.py"], tmp_path, TMPDIR=str(tmp_path))
    yield job
    job.close()


def test_what_no_frame_holds_at_the_end_is_taken_in_from_a_file(job: Job, tmp_path: Path) -> None:
    assert job.wait() == 0, job.stderr
    assert "they lie in" in job.stderr
    folder = job.folder()
    wait_for(lambda: not (folder / "journal").exists(), 60, "a clean end")
    values = job.points().query("value != 0.5").value
    assert sorted(values) == list(range(CALLS))
    assert len(job.points()) == 2 * CALLS
    assert job.document()["state"] == "finished"
    assert not list(tmp_path.rglob("*.ring")) + list(tmp_path.rglob("*.spool"))
