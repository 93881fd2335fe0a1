"""One script in every role: alone, launched by anybody, as one of several that nobody launched, switched off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")

TRAIN = """
    import os, torch, trackside
    from torch import nn
    torch.manual_seed(7)
    mon = trackside.Monitor(epochs=2)
    model = nn.Linear(4, 1)
    mon.watch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in mon.epochs():
        for batch in mon.batches([torch.ones(8, 4)] * 5):
            loss = model(batch).pow(2).mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            mon.log({"loss": loss})
        mon.log_epoch(epoch, {"accuracy": 0.5})
    mon.finish()
    print("loss", loss.item())
"""

SPAWN = """
    import os, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp, trackside

    def group(rank):
        dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=rank, world_size=2)

    def variables(rank):
        os.environ["RANK"] = str(rank); os.environ["LOCAL_RANK"] = str(rank); os.environ["WORLD_SIZE"] = "2"

    def train(rank, begin_first, begin):
        if begin_first: begin(rank)
        mon = trackside.Monitor(epochs=2)
        if not begin_first: begin(rank)
        for epoch in mon.epochs():
            for batch in mon.batches([[1.0]] * 10): mon.log({"loss": float(rank)})
        assert mon._runtime._link.connected.wait(60)
        mon.finish()

    if __name__ == "__main__":
        mp.spawn(train, args=(sys.argv[1] == "before", {"group": group, "variables": variables}[sys.argv[2]]), nprocs=2)
        print("trained")
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[Job]]:
    started: list[Job] = []
    yield started
    for job in started:
        job.close()


def write(folder: Path, code: str) -> str:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(code))
    return str(path)


def start(jobs: list[Job], folder: Path, command: list[str], **env: str) -> Job:
    jobs.append(Job(command, folder, TMPDIR=str(folder), **env))
    return jobs[-1]


def ended_run(job: Job) -> dict[str, Any]:
    """The run document once the controller has written everything and left."""
    folder = job.folder()
    wait_for(lambda: not (folder / "journal").exists(), 30, "a clean end of the run")
    return job.document()


def ranks_of(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {entry["rank"]: entry for entry in document["rank_entries"]}


def losses(job: Job) -> dict[int, int]:
    """How many values of `loss` each rank has."""
    frame = job.points()
    return {int(rank): int(count) for rank, count in frame[frame.series == "loss"].groupby("rank").size().items()}


@pytest.mark.parametrize(
    ("command", "world"),
    [
        ([sys.executable], 1),
        pytest.param([*TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0"], 2, marks=pytest.mark.long),
        ([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], 2),
    ],
    ids=["alone", "trackside run", "torchrun"],
)
def test_b01_d03_one_script_unchanged_is_one_run_however_it_is_started(
    tmp_path: Path, jobs: list[Job], command: list[str], world: int
) -> None:
    job = start(jobs, tmp_path, [*command, write(tmp_path, TRAIN)])
    assert job.wait(120) == 0, job.stderr
    document = ended_run(job)
    assert len(list(job.runs.iterdir())) == 1
    assert (document["state"], document["world_size"], document["ranks"]["finished"]) == ("finished", world, world)
    assert losses(job) == dict.fromkeys(range(world), 10)
    assert len({line.partition("loss ")[2] for line in job.stdout.splitlines()}) == 1
    assert job.stdout.count("loss ") == world


@pytest.mark.parametrize("role", ["disabled", "launcher"])
def test_b01_switched_off_or_in_the_launcher_it_binds_samples_and_writes_nothing(
    tmp_path: Path, jobs: list[Job], role: str
) -> None:
    code = """
        import threading
        before = len(os.listdir("/proc/self/fd"))
        mon.serve(0)
        print([t.name for t in threading.enumerate()], len(os.listdir("/proc/self/fd")) - before, mon.history())
    """
    script = write(tmp_path, textwrap.dedent(TRAIN) + textwrap.dedent(code))
    launcher = f"TRACKSIDE_LAUNCHER_PID=$$ exec {sys.executable} {script}"
    command = [sys.executable, script] if role == "disabled" else ["bash", "-c", launcher]
    job = start(jobs, tmp_path, command, **({"TRACKSIDE_DISABLED": "1"} if role == "disabled" else {}))
    assert job.wait(60) == 0, job.stderr
    assert job.stdout.splitlines()[1] == "['MainThread'] 0 []"
    assert job.stderr == ""
    assert not job.runs.exists()


@pytest.mark.parametrize(
    ("how", "moment"),
    [
        ("group", "before"),
        ("variables", "after"),
        *(pytest.param(*other, marks=pytest.mark.long) for other in (("group", "after"), ("variables", "before"))),
    ],
)
def test_b01_d04_ranks_that_nobody_launched_are_one_run(tmp_path: Path, jobs: list[Job], moment: str, how: str) -> None:
    """`torch.multiprocessing.spawn`: a child learns who it is before its `Monitor`, or only after it."""
    job = start(jobs, tmp_path, [sys.executable, write(tmp_path, SPAWN), moment, how])
    assert job.wait(120) == 0, job.stderr
    assert job.stdout == "trained\n"
    document = ended_run(job)
    assert len(list(job.runs.iterdir())) == 1
    assert (document["state"], document["world_size"], document["ranks"]["finished"]) == ("finished", 2, 2)
    assert losses(job) == {0: 20, 1: 20}
    source = "torch.distributed" if how == "group" else "torchrun (RANK, LOCAL_RANK, WORLD_SIZE)"
    assert [entry["identity_source"] for entry in document["rank_entries"]] == [source] * 2
    assert [line.split()[1] for line in job.stderr.splitlines() if line.startswith("  epoch")] == ["1/2", "2/2"]


def test_d02_a_child_that_never_says_who_it_is_is_a_single_process(tmp_path: Path, jobs: list[Job]) -> None:
    code = """
        import multiprocessing as mp, trackside
        def train():
            with trackside.Monitor(epochs=1) as mon:
                for epoch in mon.epochs(): mon.log({"loss": 1.0})
        if __name__ == "__main__":
            child = mp.get_context("spawn").Process(target=train)
            child.start(); child.join(); print(child.exitcode)
    """
    job = start(jobs, tmp_path, [sys.executable, write(tmp_path, code)])
    assert job.wait(60) == 0
    assert job.stdout == "0\n", job.stderr
    document = ended_run(job)
    assert (document["world_size"], losses(job)) == (1, {0: 1})
    assert ranks_of(document)[0]["identity_source"] == "single process"


LAUNCHERS = {
    "torchrun": {"RANK": "{r}", "LOCAL_RANK": "{r}", "WORLD_SIZE": "2", "MASTER_PORT": "1"},
    "Slurm": {"SLURM_PROCID": "{r}", "SLURM_LOCALID": "{r}", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "9"},
    "Open MPI": {
        "OMPI_COMM_WORLD_RANK": "{r}", "OMPI_COMM_WORLD_LOCAL_RANK": "{r}", "OMPI_COMM_WORLD_SIZE": "2",
    },
    "PMI": {"PMI_RANK": "{r}", "PMI_SIZE": "2", "MPI_LOCALRANKID": "{r}"},
}  # fmt: skip


@pytest.mark.parametrize("launcher", list(LAUNCHERS))
def test_d02_d06_ranks_of_every_launcher_feed_one_run_that_says_who_told_them(
    tmp_path: Path, jobs: list[Job], launcher: str
) -> None:
    code = """
        import trackside
        with trackside.Monitor(epochs=1) as mon:
            for epoch in mon.epochs(): mon.log({"loss": 1.0})
            assert mon._runtime._link.connected.wait(60)
    """
    script = write(tmp_path, code)
    for rank in (1, 0):
        env = {name: value.format(r=rank) for name, value in LAUNCHERS[launcher].items()}
        start(jobs, tmp_path, [sys.executable, script], **env)
    assert [job.wait(60) for job in jobs] == [0, 0], jobs[0].stderr + jobs[1].stderr
    document = ended_run(jobs[0])
    assert len(list(jobs[0].runs.iterdir())) == 1
    assert losses(jobs[0]) == {0: 1, 1: 1}
    for entry in document["rank_entries"]:
        assert entry["identity_source"].startswith(f"{launcher} (")
        assert all(
            name in entry["identity_source"] for name in LAUNCHERS[launcher] if "{r}" in LAUNCHERS[launcher][name]
        )
    assert [job.stderr.count("  epoch 1/1") for job in jobs] == [0, 1], "only the primary prints"


def test_d02_a_process_that_another_starts_with_a_local_rank_finds_its_run(tmp_path: Path, jobs: list[Job]) -> None:
    """Lightning starts ranks from the first one, with a local rank and a world size alone."""
    code = """
        import os, subprocess, sys, trackside
        mon = trackside.Monitor()
        mon.log({"loss": 1.0})
        if "LOCAL_RANK" not in os.environ:
            assert mon._runtime._link.connected.wait(30)
            os.environ.update(WORLD_SIZE="2", LOCAL_RANK="0", NODE_RANK="0", MASTER_PORT="1")
            child = subprocess.Popen([sys.executable, sys.argv[0]], env={**os.environ, "LOCAL_RANK": "1"})
            assert child.wait(60) == 0
        mon.finish()
    """
    job = start(jobs, tmp_path, [sys.executable, write(tmp_path, code)])
    assert job.wait(60) == 0, job.stderr
    document = ended_run(job)
    assert len(list(job.runs.iterdir())) == 1
    assert (document["world_size"], losses(job)) == (2, {0: 1, 1: 1})
    assert {entry["identity_source"] for entry in document["rank_entries"]} == {"local rank (LOCAL_RANK, WORLD_SIZE)"}


def test_d02_a_rank_that_is_told_so_late_is_shown_as_that_rank_and_warned(tmp_path: Path, jobs: list[Job]) -> None:
    code = """
        import os, time, trackside
        mon = trackside.Monitor()
        assert mon._runtime._link.connected.wait(30)
        os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
        until = time.monotonic() + 20
        while mon._runtime.identity.rank == 0 and time.monotonic() < until: time.sleep(0.05)
        mon.log({"loss": 1.0})
        mon.finish()
    """
    job = start(jobs, tmp_path, [sys.executable, write(tmp_path, code)])
    assert job.wait(60) == 0, job.stderr
    document = ended_run(job)
    assert list(ranks_of(document)) == [1], "no ghost of the single process"
    assert (document["world_size"], losses(job)) == (2, {1: 1})
    assert job.stderr.count("turned out to be rank 1 of 2") == 1


def test_d11_no_rank_waits_for_another(tmp_path: Path, jobs: list[Job]) -> None:
    """Rank 1 logs a hundred times as often and is still there when rank 0 has finished and ended."""
    code = """
        import os, time, trackside
        rank = int(os.environ["RANK"])
        mon = trackside.Monitor()
        for i in range(1000 if rank else 10): mon.log({"loss": i})
        until = time.monotonic() + 60
        while rank and not os.path.exists("go") and time.monotonic() < until: time.sleep(0.02)
        mon.finish()
        print("ended", rank)
    """
    script = write(tmp_path, code)
    for rank in range(2):
        env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "1"}
        start(jobs, tmp_path, [sys.executable, script], **env)
    assert jobs[0].wait(30) == 0
    assert jobs[1].process.poll() is None
    (tmp_path / "go").touch()
    assert jobs[1].wait(30) == 0
    ended_run(jobs[0])
    assert losses(jobs[0]) == {0: 10, 1: 1000}


def test_b08_without_a_page_the_report_has_graph_metadata_and_hardware_all_the_same(
    tmp_path: Path, jobs: list[Job]
) -> None:
    code = """
        import trackside
        mon = trackside.Monitor()
        mon.set_svg("<svg><rect/></svg>", label="a net", hash="abc")
        mon.set_metadata({"author": "me"})
        mon.log({"loss": 1.0})
        mon.finish()
    """
    job = start(jobs, tmp_path, [sys.executable, write(tmp_path, code)])
    assert job.wait(60) == 0, job.stderr
    document = ended_run(job)
    assert "://" not in job.stderr
    assert (document["label"], document["hash"], document["has_svg"]) == ("a net", "abc", True)
    assert document["metadata"] == {"author": "me"}
    assert document["hardware"]
    assert (job.folder() / "report.html").stat().st_size > 10_000


def test_lesson_relative_output_paths_are_said_absolute(tmp_path: Path, jobs: list[Job]) -> None:
    """Also where the script changes its directory right after it began."""
    code = """
        import os, trackside
        mon = trackside.Monitor(epochs=1, dir="mine")
        os.makedirs("elsewhere"); os.chdir("elsewhere")
        for epoch in mon.epochs(): mon.log({"loss": 1.0})
        for _ in range(2): mon.export_csv("a.csv")
        mon.write_log("no/such/a.log"); mon.save_html("a.html")
        mon.finish()
    """
    job = start(jobs, tmp_path, [sys.executable, write(tmp_path, code)])
    assert job.wait(60) == 0, job.stderr
    (run,) = (tmp_path / "mine").iterdir()
    lines = job.stderr.splitlines()
    assert lines.count(f"  written    {tmp_path}/elsewhere/a.csv") == 1
    assert lines.count(f"  written    {tmp_path}/elsewhere/a.html") == 1
    assert f"  trackside: {tmp_path}/elsewhere/no/such/a.log was not written: No such file or directory" in lines
    assert f"  report     {run}/report.html" in lines
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["a.csv", "a.html"]


def test_lesson_a_launched_run_says_its_folder_absolute(tmp_path: Path, jobs: list[Job]) -> None:
    command = [*TRACKSIDE, "run", "--nproc-per-node", "1", "--no-page", "--dir", "mine"]
    job = start(jobs, tmp_path, [*command, write(tmp_path, "print('done')")])
    assert job.wait(60) == 0, job.stderr
    (run,) = (tmp_path / "mine").iterdir()
    assert f"  report     {run}/report.html" in job.stderr.splitlines()
    done = subprocess.run(
        [*TRACKSIDE, "export", f"mine/{run.name}", "--output", "points.csv"],
        cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert f"points in {tmp_path}/points.csv" in done.stderr


@pytest.mark.parametrize("command", ["torchrun", pytest.param("trackside run", marks=pytest.mark.long)])
def test_b32_lesson_no_false_alarm_at_teardown(tmp_path: Path, jobs: list[Job], command: str) -> None:
    """One rank ends well before the other, one without `finish`: nothing but the finish is said."""
    code = """
        import os, time, trackside
        rank = int(os.environ["RANK"])
        mon = trackside.Monitor()
        mon.log({"loss": 1.0})
        if rank == 0: mon.finish()
        else: time.sleep(3)
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ours = [*TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0"]
    job = start(jobs, tmp_path, [*(torchrun if command == "torchrun" else ours), write(tmp_path, code)])
    assert job.wait(90) == 0, job.stderr
    document = ended_run(job)
    assert (document["state"], document["ranks"]["finished"]) == ("finished", 2)
    assert [(event["kind"], event["severity"]) for event in job.events()] == [("finish", "info")]
    assert document["warnings"] == []
    assert json.loads((job.folder() / "run.json").read_text())["state_detail"] is None
