"""Wall clocks say when, monotonic ones how long, sequences in which order; whatever the clock or the zone."""

import json
import subprocess
import sys
import textwrap
import time
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from tests.process.job import clean_environment, wait_for
from tests.process.station import Station
from trackside.wire import messages

pytestmark = pytest.mark.usefixtures("leak_check")

JUMPING = """
    import os, time
    real, jump_s = time.time, 0.0
    time.time = lambda: real() + jump_s
    import trackside
    mon = trackside.Monitor(epochs=2)
    for epoch in mon.epochs():
        for batch in mon.batches([[0] * 4] * 10):
            mon.log({"loss": 1.0})
            time.sleep(0.02)
        jump_s = %s if epoch == 0 else 0.0
        if epoch == 0:
            mon.event("jumped")
    while not os.path.exists("go"):
        time.sleep(0.02)
    mon.finish()
"""


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_d86_a_clock_that_jumps_changes_no_duration_and_no_order(tmp_path: Path, jump_s: float) -> None:
    station = Station()
    (tmp_path / "train.py").write_text(textwrap.dedent(JUMPING % jump_s))
    process = subprocess.Popen(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env=clean_environment(TRACKSIDE_CONTROLLER=station.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: station.of(messages.ResourceSample), 60, "a sample")
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=60)
    finally:
        station.close()
    assert process.returncode == 0, err
    assert [step for name, _, step, _ in station.points() if name == "loss"] == list(range(20))
    reports = station.of(messages.EpochReport)
    assert [report.epoch for report in reports] == [0, 1]
    assert all(0.2 <= (report.seconds or 0) < 300 for report in reports)
    assert all((report.work_seconds or 0) < 300 for report in reports)
    assert all(1 < sample.interval_seconds < 300 for sample in station.of(messages.ResourceSample))
    beats = station.of(messages.Heartbeat)
    uptimes = [beat.uptime_seconds for beat in beats]
    assert uptimes == sorted(uptimes)
    assert max(uptimes) < 600
    assert "3600" not in err
    assert "1h" not in err, "no line counts the jump"


def test_d85_times_are_utc_seconds_whatever_the_zone(tmp_path: Path) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(name="zoned")
        mon.log({"loss": 1.0})
        mon.event("saved")
        mon.log_epoch(0, {"loss": 1.0})
        mon.finish()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(code))
    before = time.time()
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env=clean_environment(TZ="Asia/Kolkata"),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    wait_for(lambda: not (folder / "journal").exists(), 60, "the controller's clean end")
    after = time.time()
    named = datetime.strptime(folder.name.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    document = json.loads((folder / "run.json").read_text())
    events = [json.loads(line)["time"] for line in (folder / "events.jsonl").read_text().splitlines()]
    points = pd.read_parquet(folder / "points")
    epochs = pd.read_parquet(folder / "epochs.parquet")
    times = [document["started_at"], document["ended_at"], *events, *points.time, *epochs.ended_at]
    assert all(before - 5 <= moment <= after for moment in [named.timestamp(), *times]), (before, times)
