"""Where a step's time goes, in real jobs: the right phase of the right rank grows."""

import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, clean_environment
from tests.process.station import Station
from tests.process.step_times import by_rank

FAULTS = {"loader": "data", "sleep": "forward", "matmul": "forward", "before all-reduce": "rest"}
STEPS, DELAY_S = 10, 0.06


@pytest.fixture
def station() -> Iterator[Station]:
    made = Station()
    yield made
    made.close()


def torchrun(station: Station, folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, as torchrun does; its ranks report to the station."""
    return launch([sys.executable, "-m", "torch.distributed.run"], station, folder, script, *arguments)


def launch(
    command: list[str], station: Station, folder: Path, script: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(TRACKSIDE_CONTROLLER=station.address, TMPDIR=str(folder))
    command = [*command, "--nproc-per-node", "2", str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done


def median(rows: list[dict[str, Any]], phase: str) -> float:
    return statistics.median(row["seconds"][phase] / row["count"] for row in rows)


def test_the_slow_rank_is_told_by_its_own_time_and_the_phase(station: Station, tmp_path: Path) -> None:
    torchrun(station, tmp_path, "faults.py", *FAULTS)
    ranks = by_rank(station)
    assert [sum(row["count"] for row in ranks[rank]) for rank in (0, 1)] == [STEPS * len(FAULTS)] * 2
    assert ranks[0][-1]["step"] == STEPS * len(FAULTS) - 1
    assert sum(row["samples"] for row in ranks[0]) == 4 * STEPS * len(FAULTS)
    for rank in (0, 1):
        for row in ranks[rank]:
            assert sum(row["seconds"].values()) == pytest.approx(row["wall"])
            assert row["own"] == pytest.approx(row["wall"] - row["seconds"]["collective"])
    for place, (fault, phase) in enumerate(FAULTS.items()):
        # The first step of a fault may share its entry with the step before.
        during = [
            [row for row in ranks[rank] if place * STEPS + 1 <= row["step"] < (place + 1) * STEPS] for rank in (0, 1)
        ]
        healthy, slow = during
        assert median(slow, phase) > 0.95 * DELAY_S, fault
        assert median(healthy, phase) < 0.5 * DELAY_S, fault
        assert median(healthy, "collective") > 0.5 * DELAY_S, fault
        assert statistics.median(row["own"] / row["count"] for row in slow) > 0.95 * DELAY_S, fault
        assert statistics.median(row["own"] / row["count"] for row in healthy) < 0.5 * DELAY_S, fault


@pytest.mark.long
def test_waiting_is_told_apart_through_fsdp_and_broadcast_buffers(station: Station, tmp_path: Path) -> None:
    torchrun(station, tmp_path, "sharded.py")
    steps, delay_s = 8, 0.08
    ranks = by_rank(station)
    for place, waits in enumerate((True, True, False)):
        healthy, slow = (
            [row for row in ranks[rank] if place * steps + 1 <= row["step"] < (place + 1) * steps] for rank in (0, 1)
        )
        assert median(slow, "forward") > 0.95 * delay_s, place
        assert median(healthy, "forward") < 0.5 * delay_s, place
        assert (median(healthy, "collective") > 0.5 * delay_s) is waits, place
        for row in [*healthy, *slow]:
            assert sum(row["seconds"].values()) == pytest.approx(row["wall"])


@pytest.mark.long
def test_every_manner_of_training_has_its_steps_and_trains_the_same(station: Station, tmp_path: Path) -> None:
    """Accumulation, two optimizers, mixed precision with a skipped step, compiled and evaluated between."""
    watched = launch([*TRACKSIDE, "run"], station, tmp_path, "manners.py")
    plain = torchrun(station, tmp_path, "manners.py")
    assert re.sub(r"^\[[^]]*:r0\] ", "", watched.stdout, flags=re.M) == plain.stdout != ""
    steps = sum(int(line.split()[1]) for line in plain.stdout.splitlines())
    ranks = by_rank(station)
    for rank in (0, 1):
        assert sum(row["count"] for row in ranks[rank]) == steps == 20
        assert sum(row["samples"] for row in ranks[rank]) == 4 * 24
        for row in ranks[rank]:
            assert sum(row["seconds"].values()) == pytest.approx(row["wall"])
        last = ranks[rank][-1]["seconds"]
        assert set(last) == {"data", "forward", "backward", "optimizer", "collective", "rest"}
        assert all(seconds > 0 for seconds in last.values())
