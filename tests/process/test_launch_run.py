"""`trackside run` with a controller: what the run folder says afterwards, and what its terminal said."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
HOST = socket.gethostname()
SPEAK = str(SCRIPTS / "speak.py")


def launch(folder: Path, *arguments: str, nproc: int = 2, options: tuple[str, ...] = ("--port", "0")) -> Job:
    return Job([*TRACKSIDE, "run", "--nproc-per-node", str(nproc), *options, *arguments], folder)


def ranks(job: Job) -> dict[int, dict[str, Any]]:
    document = job.document()
    return {entry["rank"]: entry for entry in document["rank_entries"]}


@pytest.fixture(scope="module")
def at_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Ranks of a script without a monitor, which stay until the last test here lets them end."""
    folder = tmp_path_factory.mktemp("work")
    job = launch(folder, SPEAK, "--rank", "9", "--until", str(folder / "go"))
    try:
        wait_for(lambda: len(job.worker_pids()) == 2, 60, "both ranks")
        yield job
    finally:
        job.close()


@pytest.fixture
def environ(at_work: Job) -> dict[str, str]:
    """That of rank 1."""
    lines = Path(f"/proc/{at_work.worker_pids()[1]}/environ").read_bytes().decode().split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_the_secret_is_on_no_command_line(at_work: Job, environ: dict[str, str]) -> None:
    address = environ["TRACKSIDE_CONTROLLER"]
    assert address.startswith("trackside1:")
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert address.encode() not in line.read_bytes()
    assert address not in at_work.stdout + at_work.stderr


def test_doctor_reaches_a_controller_with_a_ranks_environment(environ: dict[str, str], scratch: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "trackside", "doctor", "--json"],
        env=environ,
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = {entry["check"]: entry["status"] for entry in json.loads(answer.stdout)}
    assert (found["identity"], found["controller"], found["link"]) == ("ok", "ok", "ok")


def test_a_script_without_a_monitor_is_seen_from_its_start_to_its_end(at_work: Job, environ: dict[str, str]) -> None:
    job = at_work
    seen = wait_for(
        lambda: (found := job.get("api/v1/ranks")) and all(r["memory"] for r in found) and found, 60, "their figures"
    )
    assert [entry["host"] for entry in seen] == [HOST, HOST]
    (job.runs.parent / "go").touch()
    assert job.wait() == 0
    assert job.document()["state"] == "finished"
    assert {rank: entry["exit_code"] for rank, entry in ranks(job).items()} == {0: 0, 1: 0}
    report = job.folder() / "report.html"
    assert job.stderr.splitlines()[-1] == f"  report     {report}"
    assert report.is_file()
    assert not (job.folder() / "journal").exists()
    assert environ["TRACKSIDE_CONTROLLER"] not in job.stdout + job.stderr


@pytest.mark.parametrize(
    ("how", "code", "signal_name"), [(["--exit", "3"], 3, None), (["--signal", "9"], 137, "SIGKILL")]
)
def test_d38_b30_how_a_rank_ended_is_in_the_run(
    scratch: Path, how: list[str], code: int, signal_name: str | None
) -> None:
    job = launch(scratch, SPEAK, *how, "--others-stay")
    try:
        assert job.wait() == code
    finally:
        job.close()
    document, entry = job.document(), ranks(job)[1]
    assert document["state"] == "failed"
    assert "rank 1" in document["state_detail"]
    assert (entry["exit_code"], entry["signal"]) == (None if signal_name else code, signal_name)
    assert any(event["kind"] == "rank failed" and "rank 1" in event["text"] for event in job.events())


def test_d40_a_launcher_that_was_ended_is_terminated_and_not_failed(scratch: Path) -> None:
    job = launch(scratch, SPEAK, "--rank", "9", "--others-stay")
    try:
        wait_for(lambda: len(job.get("api/v1/ranks")) == 2, 30, "both ranks")
        job.kill(sig=signal.SIGTERM)
        assert job.wait() == 143
    finally:
        job.close()
    assert job.document()["state"] == "terminated"
    assert "SIGTERM" in job.document()["state_detail"]


@pytest.mark.long
def test_b31_d44_restarts_are_generations_of_one_run(scratch: Path) -> None:
    job = launch(scratch, "--max-restarts", "1", SPEAK, "--exit", "3", "--until-generation", "1")
    try:
        assert job.wait() == 0
    finally:
        job.close()
    assert len(list(job.runs.iterdir())) == 1
    assert job.document()["generation"] == 1
    assert {entry["generation"] for entry in ranks(job).values()} == {1}


def test_a_port_that_is_taken_is_said_with_its_holder_and_the_training_goes_on(scratch: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        job = launch(scratch, SPEAK, "--rank", "9", "--until", str(scratch / "go"), options=("--port", str(port)))
        try:
            said = wait_for(lambda: [line for line in job.err if "page not bound" in line], 60, "the line")[0]
            (scratch / "go").touch()
            assert job.wait() == 0
        finally:
            (scratch / "go").touch()
            job.close()
    assert f"port {port}" in said
    assert f"(pid {os.getpid()})" in said


def test_b29_without_a_page_there_is_the_report(scratch: Path) -> None:
    job = launch(scratch, SPEAK, options=("--no-page",))
    try:
        assert job.wait() == 0
    finally:
        job.close()
    assert "http://" not in job.stderr
    assert (job.folder() / "report.html").is_file()


def test_hold_keeps_the_page_until_ctrl_c(scratch: Path) -> None:
    job = launch(scratch, SPEAK, options=("--port", "0", "--hold"))
    try:
        url = job.url()
        wait_for(lambda: "holding" in job.stderr, 30, "the line that it holds")
        with urllib.request.urlopen(f"{url}/api/v1/run", timeout=10) as answer:
            assert json.loads(answer.read())["state"] == "finished"
        job.kill(sig=signal.SIGINT)
        assert job.wait() == 0
    finally:
        job.close()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGTERM, signal.SIGHUP))]
)
def test_a_page_that_is_held_goes_with_its_launcher(scratch: Path, number: signal.Signals) -> None:
    job = launch(scratch, SPEAK, "--exit", "3", options=("--port", "0", "--hold"))
    try:
        wait_for(lambda: "holding" in job.stderr, 60, "the line that it holds")
        assert "  failed  " in job.stderr, "not as it was before the end"
        controller = psutil.Process(job.controller_pid())
        job.kill(sig=number)
        assert job.wait() == (-number if number == signal.SIGKILL else 3)
        controller.wait(10)
    finally:
        job.close()


def test_two_hosts_share_one_controller_through_torchs_rendezvous(scratch: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    options = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "7", "--port", "0")
    jobs = [launch(scratch, SPEAK, "--rank", "9", "--after", "2", nproc=1, options=options) for _ in range(2)]
    try:
        assert [job.wait() for job in jobs] == [0, 0]
    finally:
        for job in jobs:
            job.close()
    assert len(list(jobs[0].runs.iterdir())) == 1
    assert jobs[0].document()["state"] == "finished"
    assert {rank: entry["exit_code"] for rank, entry in ranks(jobs[0]).items()} == {0: 0, 1: 0}
