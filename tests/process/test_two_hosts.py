"""What a rank on another host than its controller left, when it was killed while nobody could hear it."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.process.hosts import ADDRESSES, Hosts
from tests.process.job import wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are for root"),
    pytest.mark.usefixtures("leak_check"),
]
SCRIPT = """
import os, sys, time
from pathlib import Path
import trackside

folder, first = Path(sys.argv[1]), int(sys.argv[2])
mon = trackside.Monitor(dir=str(folder / "runs"))
step = first
while not (folder / "stop").exists():
    mon.log({"loss": step / 7}, step=step)
    step += 1
    part = folder / f"count{os.environ['RANK']}.part"
    part.write_text(str(step))
    part.replace(part.with_suffix(""))
    time.sleep(0.01)
mon.finish()
"""


@pytest.fixture
def hosts(scratch: Path) -> Iterator[Hosts]:
    (scratch / "train.py").write_text(SCRIPT)
    made = Hosts(scratch)
    yield made
    (scratch / "stop").touch()
    made.close()


@pytest.fixture
def folder(scratch: Path, hosts: Hosts) -> Path:
    """The run folder of a controller on host a, with rank 0 there and rank 1 on host b."""
    controller = hosts.start(
        0, "-m", "trackside", "controller", "--listen", ADDRESSES[0], "--dir", str(scratch / "runs"), "--no-page"
    )
    assert controller.stdout is not None
    said = json.loads(controller.stdout.readline())
    (scratch / "address").write_text(said["address"])
    for rank in (0, 1):
        start_rank(hosts, scratch, rank)
    path = Path(said["directory"])
    wait_for(
        lambda: all((entry["step"] or 0) > 50 for entry in ranks(path)) and len(ranks(path)) == 2, 60, "both at work"
    )
    return path


def ranks(folder: Path) -> list[dict]:
    return json.loads((folder / "run.json").read_text())["rank_entries"]


def start_rank(hosts: Hosts, scratch: Path, rank: int, first: int = 0) -> None:
    env = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    hosts.start(
        rank, "train.py", str(scratch), str(first), TRACKSIDE_CONTROLLER=(scratch / "address").read_text(), **env
    )


def kill_unheard(hosts: Hosts, scratch: Path, folder: Path) -> int:
    """Cut host b off, let rank 1 log on for a while, kill it; how many steps it had logged."""
    pid = next(entry["pid"] for entry in ranks(folder) if entry["rank"] == 1)
    hosts.cut(is_cut=True)
    at = int((scratch / "count1").read_text())
    wait_for(lambda: int((scratch / "count1").read_text()) > at + 100, 30, "steps that nobody hears of")
    os.kill(pid, signal.SIGKILL)
    hosts.processes[-1].wait(20)
    return int((scratch / "count1").read_text())


def steps_of(folder: Path, rank: int) -> list[int]:
    """Without the step that may have been logged and not counted when the rank was killed."""
    points = pd.read_parquet(folder / "points")
    steps = sorted(points[points["rank"] == rank]["step"].tolist())
    assert len(steps) - len(set(steps)) <= 1
    return sorted(set(steps))


def test_the_next_rank_of_the_host_delivers_what_the_killed_one_left(scratch: Path, hosts: Hosts, folder: Path) -> None:
    logged = kill_unheard(hosts, scratch, folder)
    hosts.cut(is_cut=False)
    start_rank(hosts, scratch, 1, first=logged)
    wait_for(lambda: int((scratch / "count1").read_text()) > logged + 100, 60, "its successor at work")
    wait_for(lambda: not [*hosts.memory(1).rglob("*.part")][1:], 60, "only the successor's own file")
    successor = hosts.processes[-1].pid  # speaks for the rank once the killed one has not been heard for a while
    wait_for(lambda: [e["pid"] for e in ranks(folder) if e["rank"] == 1] == [successor], 60, "its word for the rank")
    (scratch / "stop").touch()
    wait_for((folder / "sealed.bin").exists, 60, "the end")
    assert steps_of(folder, 1) == list(range(int((scratch / "count1").read_text())))


def test_a_dead_hosts_part_is_recovered_there_after_the_run_has_ended(
    scratch: Path, hosts: Hosts, folder: Path
) -> None:
    logged = kill_unheard(hosts, scratch, folder)
    (scratch / "stop").touch()
    hosts.processes[1].wait(60)
    wait_for(lambda: next(e for e in ranks(folder) if e["rank"] == 0)["state"] == "finished", 60, "rank 0's end")
    controller = next(json.loads((folder / ".lock").read_text())["pid"] for _ in "1")
    os.kill(controller, signal.SIGTERM)
    wait_for((folder / "sealed.bin").exists, 60, "the end")
    assert len(steps_of(folder, 1)) < logged, "the cable was out"
    done = hosts.start(1, "-m", "trackside", "recover", str(folder), "--json")
    output, _ = done.communicate(timeout=120)
    assert done.returncode == 0, output
    assert steps_of(folder, 1)[:logged] == list(range(logged))
    assert not [*hosts.memory(1).rglob("*.part")]
