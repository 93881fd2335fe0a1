"""An elastic job: ranks that die, hosts that come and go, one run."""

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, Job, wait_for
from tests.process.stream import Stream

pytestmark = pytest.mark.usefixtures("leak_check")
ELASTIC = str(SCRIPTS / "elastic.py")
Start = Callable[..., Job]
ALARMS = ("rank lost", "rank failed")


@pytest.fixture
def start(scratch: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def begin(*options: str) -> Job:
        command = [*TRACKSIDE, "run", "--port", "0", *options, ELASTIC, str(scratch)]
        # torch 2.13 lets a host that joins later wait in vain for the address of a store that it shares otherwise
        jobs.append(Job(command, scratch, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"))
        return jobs[-1]

    yield begin
    (scratch / "stop").touch()  # also for ranks whose launcher was killed
    for job in jobs:
        job.close()


def ranks_of(job: Job, generation: int, count: int) -> list[dict[str, Any]] | None:
    """All ranks of a generation, once every one of them trains."""
    found = job.get("api/v1/ranks")
    whole = len(found) == count and all(entry["generation"] == generation for entry in found)
    return found if whole and all(entry["step"] and entry["state"] == "alive" for entry in found) else None


def curve(job: Job) -> dict[int, int]:
    """Values at each step of the loss."""
    answer = job.get("api/v1/series?metric=loss&points=5000")
    return dict(zip(answer["x"], answer["count"], strict=True))


def test_b31_d44_d45_a_killed_rank_starts_a_second_generation_of_the_same_run(scratch: Path, start: Start) -> None:
    job = start("--nproc-per-node", "2", "--max-restarts", "1")
    job.url(90)
    first = wait_for(lambda: ranks_of(job, 0, 2), 60, "both ranks at work")
    before, url = job.get("api/v1/run"), job.url()
    page = Stream(f"{url}/")
    killed_at = max(entry["step"] for entry in first)
    job.kill(first[1]["pid"])
    failed = wait_for(
        lambda: [e for e in job.get("api/v1/events") if e["kind"] == "rank failed"], 10, "the failed rank by name"
    )
    second = wait_for(lambda: ranks_of(job, 1, 2), 60, "both ranks of the second generation")
    wait_for(lambda: max(curve(job)) > killed_at + 50, 30, "the curve going on")
    after, url_after = job.get("api/v1/run"), job.url()
    wait_for(lambda: page.latest("run")["generation"] == 1, 10, "the open page's own news of it")
    assert {entry["generation"] for entry in page.latest("ranks")} == {1}
    (scratch / "stop").touch()
    assert job.wait() == 0
    page.close()

    assert "rank 1" in failed[0]["text"]
    assert "SIGKILL" in failed[0]["text"]
    assert {entry["pid"] for entry in first}.isdisjoint(entry["pid"] for entry in second)
    assert (after["id"], url_after, after["generation"], after["world_size"]) == (before["id"], url, 1, 2)
    assert (after["ranks"]["alive"], after["ranks"]["failed"]) == (2, 0)
    assert [warning for warning in after["warnings"] if warning["kind"] in ALARMS] == []
    assert [event["text"].partition(";")[0] for event in job.events() if event["kind"] == "restart"] == [
        "generation 1 begins with 2 ranks"
    ]
    assert len(list(job.runs.iterdir())) == 1
    document, points = job.document(), job.points()
    assert (document["state"], document["generation"]) == ("finished", 1)
    assert sorted(points["step"].unique()) == list(range(points["step"].max() + 1)), "no gap where it was restarted"
    assert set(points["generation"]) == {0, 1}
    assert not points.duplicated(["series", "rank", "generation", "step"]).any()
    both = points[points["rank"] == 0].groupby("step")["generation"].nunique()
    assert (both == 2).any(), "what is trained again from an older checkpoint is kept beside what was"


@pytest.mark.long  # torch takes half a minute to believe that a host has gone
def test_b31_hosts_that_come_and_go_are_generations_although_torch_counts_none(scratch: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    options = ["--nnodes", "1:2", "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint]
    options += ["--rdzv-id", "7", "--rdzv-conf"]
    job = start(*options, "last_call_timeout=1,keep_alive_max_attempt=6,is_host=1", "--nproc-per-node", "2")
    job.url(90)
    wait_for(lambda: ranks_of(job, 0, 2), 60, "a host alone")
    other = start(*options, "last_call_timeout=1,keep_alive_max_attempt=6,is_host=0", "--nproc-per-node", "1")
    wait_for(lambda: ranks_of(job, 1, 3), 120, "the second host's rank as well")
    counts = set(re.findall(r"torch counts (\d+)", job.stdout + other.stdout))
    run = job.get("api/v1/run")
    assert (counts, run["generation"], run["world_size"], run["ranks"]["alive"]) == ({"0"}, 1, 3, 3)

    assert [event["text"] for event in job.events() if event["kind"] in ALARMS] == [], "nobody has failed"

    theirs = [pid for pid in _children(other.process.pid) if pid in job.worker_pids().values()]
    other.kill()
    for pid in theirs:
        os.kill(pid, signal.SIGKILL)
    ours = next(pid for pid in job.worker_pids().values() if pid not in theirs)
    job.kill(ours)  # torch looks for new hosts only when a rank of its own fails
    wait_for(lambda: ranks_of(job, 2, 2), 150, "the first host alone again")
    run = job.get("api/v1/run")
    assert (run["generation"], run["world_size"], run["ranks"]["alive"], run["ranks"]["lost"]) == (2, 2, 2, 0)
    steps = curve(job)
    assert sorted(steps) == list(range(max(steps) + 1))
    assert set(steps.values()) <= {1, 2, 3}
    (scratch / "stop").touch()
    assert job.wait() == 0
    assert len(list(job.runs.iterdir())) == 1
    document = job.document()
    assert [(entry["rank"], entry["generation"]) for entry in document["rank_entries"]] == [(0, 2), (1, 2)]


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


PLAIN = [sys.executable, "-m", "torch.distributed.run"]


@pytest.fixture
def plain(scratch: Path) -> Iterator[Start]:
    """Plain torchrun on what it takes for hosts of their own, under one controller that somebody started."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    controller = Job([*TRACKSIDE, "controller", "--port", "0"], scratch)
    address = wait_for(lambda: json.loads(controller.stdout)["address"], 30, "the ready line")
    jobs = [controller]

    def begin(nodes: str, is_host: int) -> Job:
        options = ["--nnodes", nodes, "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"]
        options += ["--rdzv-endpoint", endpoint, "--rdzv-id", "7", "--local-addr", "127.0.0.1", "--rdzv-conf"]
        conf = f"last_call_timeout=1,keep_alive_max_attempt=6,is_host={is_host}"
        env = {"TRACKSIDE_CONTROLLER": address, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        jobs.append(Job([*PLAIN, *options, conf, ELASTIC, str(scratch)], scratch, **env))
        return jobs[-1]

    begin.controller = controller  # type: ignore[attr-defined]
    yield begin
    (scratch / "stop").touch()
    for job in jobs:
        job.close()


def documented_ranks(job: Job, generation: int, count: int) -> list[dict[str, Any]] | None:
    """As `ranks_of`, from the run folder: a controller alone has its own terminal."""
    found = job.document()
    entries = found["rank_entries"]
    whole = len(entries) == count and all(entry["generation"] == generation for entry in entries)
    return entries if whole and all(entry["step"] and entry["state"] == "alive" for entry in entries) else None


@pytest.mark.long
def test_b31_d44_all_hosts_of_a_plain_torchrun_job_are_of_one_generation(scratch: Path, plain: Start) -> None:
    """A rank is killed on the second host: torch counts that there alone."""
    controller: Job = plain.controller  # type: ignore[attr-defined]
    hosts = [plain("2", 1), plain("2", 0)]
    for number in (0, 1, 2):
        entries = wait_for(lambda n=number: documented_ranks(controller, n, 2), 90, f"generation {number}")
        if number < 2:
            theirs = _children(hosts[1].process.pid)
            controller.kill(next(entry["pid"] for entry in entries if entry["pid"] in theirs))
    counts = [re.findall(r"torch counts (\d+)", host.stdout) for host in hosts]
    assert counts == [["0", "0", "0"], ["0", "1", "2"]]
    (scratch / "stop").touch()
    assert [host.wait() for host in hosts] == [0, 0]
    assert controller.wait() == 0
    assert set(controller.points()["generation"]) == {0, 1, 2}
    assert [event["text"].partition(";")[0] for event in controller.events() if event["kind"] == "restart"] == [
        "generation 1 begins with 2 ranks",
        "generation 2 begins with 2 ranks",
    ]


@pytest.mark.long
def test_b31_a_host_that_joins_plain_torchrun_is_a_generation_although_torch_counts_none(
    scratch: Path, plain: Start
) -> None:
    controller: Job = plain.controller  # type: ignore[attr-defined]
    hosts = [plain("1:2", 1)]
    wait_for(lambda: documented_ranks(controller, 0, 1), 90, "a host alone")
    hosts.append(plain("1:2", 0))
    wait_for(lambda: documented_ranks(controller, 1, 2), 120, "both hosts")
    assert {count for host in hosts for count in re.findall(r"torch counts (\d+)", host.stdout)} == {"0"}
    assert controller.document()["world_size"] == 2
    (scratch / "stop").touch()
    assert [host.wait() for host in hosts] == [0, 0]


def test_d44_a_restart_by_plain_torchrun_is_a_generation_of_the_same_run(scratch: Path) -> None:
    """Rank 0, which had started the controller, is killed with the others; its successor finds it."""
    command = [*PLAIN, "--nproc-per-node", "2", "--max-restarts", "1", ELASTIC, str(scratch)]
    job = Job(command, scratch)
    try:
        entries = wait_for(lambda: documented_ranks(job, 0, 2), 60, "both ranks at work")
        for entry in entries:
            job.kill(entry["pid"])
        wait_for(lambda: documented_ranks(job, 1, 2), 60, "both ranks of the next generation")
        (scratch / "stop").touch()
        assert job.wait() == 0
        wait_for(lambda: job.document()["state"] == "finished", 30, "the end")
        assert len(list(job.runs.iterdir())) == 1
        assert set(job.points()["generation"]) == {0, 1}
    finally:
        (scratch / "stop").touch()
        job.close()
