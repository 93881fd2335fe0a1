"""The monitor's own lines of a real script, on the real terminal's stream."""

import re
import sys
from pathlib import Path

import pytest

from tests.process.job import Job

SCRIPT = """
import time, trackside
mon = trackside.Monitor(epochs=12)
{silent}
for epoch in mon.epochs(start=10):
    for batch in mon.batches([[1.0] * 4] * 3):
        mon.log({{"loss": 1.5264, "acc": 0.0001, "lr": 0}})
        time.sleep(0.02)
mon.finish()
"""


@pytest.mark.parametrize("silent", ["", "mon.silent_summary()"])
def test_b43_b44_lines_of_a_resumed_run_letter_by_letter(tmp_path: Path, silent: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(silent=silent))
    job = Job([sys.executable, str(script)], tmp_path)
    try:
        assert job.wait() == 0, job.stderr
    finally:
        job.close()
    lines = [line for line in job.stderr.splitlines() if line.startswith(("  epoch", "  training"))]
    values = re.escape("  loss=1.5264  acc=1.00e-04  lr=0")
    wanted = [rf"  epoch 11/12{values}  \[\d+ms  ETA \d+ms\]", rf"  epoch 12/12{values}  \[\d+ms\]"]
    if not silent:
        wanted.append(r"  training complete in (\d+ms|[\d.]+s)  \| loss: 1\.5264")
    assert len(lines) == len(wanted), job.stderr
    for line, pattern in zip(lines, wanted, strict=True):
        assert re.fullmatch(pattern.replace(r"\d+ms", r"(?:\d+ms|[\d.]+s)"), line), line
    assert job.stdout == ""


@pytest.mark.parametrize("asks", [False, True])
def test_a_plain_script_says_once_where_its_page_is(tmp_path: Path, asks: bool) -> None:
    script = tmp_path / "train.py"
    wish = "mon.serve(0)" if asks else ""
    script.write_text(SCRIPT.format(silent=wish).replace("sleep(0.02)", "sleep(1)"))
    job = Job([sys.executable, str(script)], tmp_path)
    try:
        assert job.wait() == 0, job.stderr
    finally:
        job.close()
    said = [line for line in job.stderr.splitlines() if line.startswith(("  page", "  dashboard"))]
    page = f"  page       trackside view {job.folder()}  (with mon.serve() in the script, a page from the start)"
    assert said == ([line for line in said if "://" in line][:1] if asks else [page])
    assert len(said) == 1
    assert job.stdout == ""
