"""What a run leaves behind, however it ended: the report, and a rank's own exports."""

import csv
import json
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from tests.process.job import TRACKSIDE, Job, clean_environment, wait_for
from tests.process.station import Station
from tests.process.wire_client import ControllerUnderTest, WireRank, points, pump_until
from trackside.wire.baked import Baked

pytestmark = pytest.mark.usefixtures("leak_check")

TRAIN = """
    import os, sys, time, trackside
    mon = trackside.Monitor(config={"lr": 0.1})
    mon.set_svg("<svg xmlns='http://www.w3.org/2000/svg'><text>net</text></svg>", "net", "abcd")
    for step in range(20):
        mon.log({"loss": 1 / (step + 1)}, step=step)
    open("ready" + os.environ.get("RANK", "0"), "w").close()
"""
WAIT = "while True: time.sleep(0.05)\n"


def baked(path: Path) -> Baked:
    """The data inside a report."""
    text = path.read_bytes()
    assert not re.findall(rb"""(?:src|href)=["']?https?:""", text), "it asks nobody for anything"
    found = re.search(rb'<script type="application/json" id="trackside-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return msgspec.json.decode(found[1], type=Baked)


def launched(folder: Path, ending: str) -> Job:
    (folder / "train.py").write_text(textwrap.dedent(TRAIN) + ending)
    command = [*TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0", "train.py"]
    return Job(command, folder)


def alone(folder: Path, ending: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(textwrap.dedent(TRAIN) + ending)
    return subprocess.Popen(
        [sys.executable, "train.py"],
        cwd=folder,
        env=clean_environment(TRACKSIDE_DIR=str(folder / "runs")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def only_run(folder: Path) -> dict[str, Any] | None:
    """The run document once its rank has said what it runs on."""
    for path in folder.glob("runs/*/run.json"):
        document = json.loads(path.read_text())
        return document if document["hardware"] else None
    return None


def only_report(folder: Path) -> Path:
    report = wait_for(lambda: next(iter(folder.glob("runs/*/report.html")), None), 60, "the report")
    wait_for(lambda: not (report.parent / "journal").exists(), 60, "the controller's clean end")
    return report


def assert_whole(data: Baked, ranks: int) -> None:
    (curve,) = [series for series in data.series if series.metric == "loss" and series.path == "root"]
    assert curve.step == list(range(20))
    assert (data.run.label, data.run.hash, data.run.world_size) == ("net", "abcd", ranks)
    assert data.run.metadata == {"config": {"lr": 0.1}}
    assert data.run.hardware
    assert data.svg is not None
    assert "net" in data.svg


def test_b50_a_launched_run_that_failed_has_its_report(scratch: Path) -> None:
    job = launched(
        scratch,
        "if os.environ['RANK'] == '1':\n    while not os.path.exists('go'): time.sleep(0.05)\n    sys.exit(7)\n" + WAIT,
    )
    try:
        wait_for(lambda: job.get("api/v1/series?metric=loss")["total_points"] == 40, 90, "what they logged")
        wait_for(lambda: job.get("api/v1/run")["hardware"], 60, "what they run on")
        (scratch / "go").touch()
        assert job.wait() == 7
    finally:
        job.close()
    data = baked(only_report(scratch))
    assert data.run.state == "failed"
    assert "7" in (data.run.state_detail or "")
    assert {entry.rank: entry.exit_code for entry in data.ranks}[1] == 7
    assert_whole(data, 2)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_b50_a_launched_run_that_was_terminated_has_its_report(scratch: Path, number: signal.Signals) -> None:
    job = launched(scratch, WAIT)
    try:
        wait_for(lambda: len(list(scratch.glob("ready*"))) == 2, 90, "both ranks at work")
        wait_for(lambda: job.get("api/v1/series?metric=loss")["total_points"] == 40, 60, "what they logged")
        wait_for(lambda: job.get("api/v1/run")["hardware"], 60, "what they run on")
        job.kill(sig=number)
        assert job.wait() == 128 + number
    finally:
        job.close()
    data = baked(only_report(scratch))
    assert data.run.state == "terminated"
    assert number.name in (data.run.state_detail or "")
    assert_whole(data, 2)


@pytest.mark.parametrize(
    ("ending", "code", "state"),
    [
        ("raise RuntimeError('boom')", 1, "failed"),
        ("import signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "failed"),
        ("import signal; os.kill(os.getpid(), signal.SIGTERM)", -15, "terminated"),
    ],
)
def test_b50_a_script_alone_that_ended_badly_has_its_report(scratch: Path, ending: str, code: int, state: str) -> None:
    process = alone(scratch, f"while not os.path.exists('go'): time.sleep(0.05)\n{ending}\n")
    wait_for(lambda: only_run(scratch), 60, "the rank's link")
    (scratch / "go").touch()
    process.communicate(timeout=60)
    assert process.returncode == code
    data = baked(only_report(scratch))
    assert data.run.state == state
    assert_whole(data, 1)


def test_b50_a_controller_that_was_told_to_end_writes_the_report(tmp_path: Path) -> None:
    controller, context = ControllerUnderTest(tmp_path), zmq.Context()
    rank = WireRank(context, controller.address, 0)
    try:
        rank.hello()
        rank.send(points([{0: 1.0}], names={0: "loss"}))
        pump_until([rank], lambda: rank.acknowledged >= 1, what="the point on the disk")
        controller.process.send_signal(signal.SIGTERM)
        assert controller.wait() == 0
    finally:
        rank.close()
        context.destroy(linger=0)
        controller.close()
    data = baked(controller.folder / "report.html")
    assert data.run.state == "terminated"
    assert [series.mean for series in data.series if series.path == "root"] == [[1.0]]


def test_b50_a_report_that_cannot_be_written_is_a_warning_and_no_failure(scratch: Path) -> None:
    job = launched(scratch, "while not os.path.exists('go'): time.sleep(0.05)\nmon.finish()\n")
    try:
        job.url(60)
        report = job.folder() / "report.html"
        report.mkdir()
        (scratch / "go").touch()
        assert job.wait() == 0
    finally:
        job.close()
    assert f"{report} was not written: Is a directory" in job.stderr
    assert f"no report was written; what is there lies in {report.parent}" in job.stderr
    assert "Traceback" not in job.stderr
    assert job.document()["state"] == "finished"
    assert not (job.folder() / "journal").exists()
    assert len(job.points()) == 40
    assert [event["severity"] for event in job.events() if event["kind"] == "sink failed"] == ["warn"]


def test_b50_a_script_alone_says_that_there_is_no_report(scratch: Path) -> None:
    process = alone(scratch, "while not os.path.exists('go'): time.sleep(0.05)\nmon.finish()\n")
    wait_for(lambda: only_run(scratch), 40, "the rank's link")
    (folder,) = (scratch / "runs").iterdir()
    (folder / "report.html").mkdir()
    (scratch / "go").touch()
    _, err = process.communicate(timeout=60)
    wait_for(lambda: not (folder / "journal").exists(), 60, "the controller's clean end")
    assert process.returncode == 0
    lines = (
        f"  trackside: no report was written; what is there lies in {folder}\n",
        f"  report     {folder / 'report.html'}  (being written)\n",  # nobody waits longer for it than 3 s
    )
    assert err.endswith(lines)


def test_b48_b49_a_loop_exports_what_it_trained_and_an_unwritable_path_is_a_line(tmp_path: Path) -> None:
    station = Station()
    code = """
        import trackside
        mon = trackside.Monitor(epochs=3, name="digits")
        for epoch in mon.epochs():
            for batch in mon.batches([[0] * 4] * 3):
                mon.log({"loss": 1.0 - epoch / 10})
            if epoch == 2:
                mon.log_epoch(epoch, {"val acc": 0.75})
        mon.export_csv("out.csv"); mon.write_log("out.log")
        mon.export_csv("no/such/folder.csv"); mon.write_log("no/such/folder.log")
        mon.finish()
        mon.export_csv("after.csv")
        print("trained")
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(code))
    try:
        done = subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env=clean_environment(TRACKSIDE_CONTROLLER=station.address),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        station.close()
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert [float(row["loss"]) for row in rows] == pytest.approx([1.0, 0.9, 0.8])
    assert [row["val acc"] for row in rows] == ["", "", "0.75"]
    assert (tmp_path / "after.csv").read_text() == (tmp_path / "out.csv").read_text()
    lines = (tmp_path / "out.log").read_text().splitlines()
    assert lines[0] == "# digits"
    shapes = [re.sub(r"\[[^]]+\]", "[]", line) for line in lines[1:4]]
    assert shapes == [
        "  epoch 1/3  loss=1.0000  []",
        "  epoch 2/3  loss=0.9000  []",
        "  epoch 3/3  loss=0.8000  val acc=0.7500  []",
    ]
    assert re.fullmatch(r"  training complete in \S+  \| loss: 0\.8000", lines[4])
    for name in ("folder.csv", "folder.log"):
        assert f"{tmp_path / 'no' / 'such' / name} was not written: No such file or directory" in done.stderr
