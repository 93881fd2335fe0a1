"""Signals of a batch system: the script ends as it would without us, and its run says how."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")

PATIENT = """
    import time, trackside
    mon = trackside.Monitor()
    for i in range(200): mon.log({"loss": i})
    assert mon._runtime._link.connected.wait(60)
    time.sleep(0.5)  # the next step computes
    print("ready", flush=True)
    time.sleep(60)
"""
Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def begin(code: str, *command: str) -> Job:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(code))
        jobs.append(Job([*(command or (sys.executable,)), str(script)], tmp_path, TMPDIR=str(tmp_path)))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


def all_ready(job: Job, ranks: int = 1) -> None:
    wait_for(lambda: job.stdout.count("ready") == ranks, 90, "every rank in its next step")


def ended_run(job: Job) -> dict[str, Any]:
    folder = job.folder()
    wait_for(lambda: not (folder / "journal").exists(), 30, "a clean end of the run")
    assert (folder / "report.html").is_file()
    return job.document()


def kept(job: Job) -> dict[int, list[float]]:
    frame = job.points()
    return {int(rank): sorted(part.value) for rank, part in frame[frame.series == "loss"].groupby("rank")}


LOGGED = [float(i) for i in range(200)]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_b11_d40_a_script_that_a_signal_ends_keeps_all_and_its_run_says_which(
    start: Start, number: signal.Signals
) -> None:
    job = start(PATIENT)
    all_ready(job)
    job.kill(sig=number)
    assert (job.wait(), [line[:8] for line in job.stderr.splitlines()]) == (-number, ["  page  "])
    document = ended_run(job)
    (rank,) = document["rank_entries"]
    assert (document["state"], rank["state"], rank["signal"]) == ("terminated", "failed", number.name)
    assert document["state_detail"].endswith(f"was killed by {number.name}")
    assert kept(job) == {0: LOGGED}


def test_b11_d40_a_batch_system_that_ends_the_controller_too_costs_nothing(start: Start) -> None:
    job = start(PATIENT)
    all_ready(job)
    controller = job.controller_pid()
    for pid in (controller, job.process.pid):
        os.kill(pid, signal.SIGTERM)
    assert job.wait() == -signal.SIGTERM
    document = ended_run(job)
    assert (document["state"], "SIGTERM" in document["state_detail"]) == ("terminated", True)
    assert kept(job) == {0: LOGGED}


@pytest.mark.parametrize("whom", ["everybody", pytest.param("launcher", marks=pytest.mark.long)])
def test_b11_d40_under_the_launcher_the_exit_code_is_the_signals_and_all_is_kept(start: Start, whom: str) -> None:
    job = start(PATIENT, *TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0")
    all_ready(job, 2)
    pids = [job.process.pid]
    if whom == "everybody":
        pids = [*job.worker_pids().values(), job.controller_pid(), *pids]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    assert job.wait() == 128 + signal.SIGTERM
    document = ended_run(job)
    assert (document["state"], "SIGTERM" in document["state_detail"]) == ("terminated", True)
    assert kept(job) == {0: LOGGED, 1: LOGGED}


def test_b11_d40_a_handler_of_the_scripts_own_is_left_alone_and_its_values_arrive(start: Start) -> None:
    code = """
        import signal, sys, time, trackside
        mon = trackside.Monitor()
        def save(number, frame):
            for i in range(100, 200): mon.log({"loss": i})
            print("saved", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        for i in range(100): mon.log({"loss": i})
        assert mon._runtime._link.connected.wait(60)
        assert signal.getsignal(signal.SIGTERM) is save
        print("ready", flush=True)
        time.sleep(60)
    """
    job = start(code)
    all_ready(job)
    job.kill(sig=signal.SIGTERM)
    assert job.wait() == 0
    assert job.stdout == "ready\nsaved\n"
    assert ended_run(job)["state"] == "finished"
    assert kept(job) == {0: LOGGED}


def test_b11_d40_ctrl_c_is_no_failure(start: Start) -> None:
    job = start(PATIENT)
    all_ready(job)
    job.kill(sig=signal.SIGINT)
    assert job.wait() == -signal.SIGINT
    assert "KeyboardInterrupt" in job.stderr
    document = ended_run(job)
    assert (document["state"], document["rank_entries"][0]["signal"]) == ("terminated", "SIGINT")
    assert kept(job) == {0: LOGGED}


STUBBORN = """
    import signal, time, trackside
    mon = trackside.Monitor()
    for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
    mon.log({"loss": 0.0})
    assert mon._runtime._link.connected.wait(60)
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("code", [PATIENT, STUBBORN])
def test_ctrl_c_under_the_launcher_is_said_once_as_what_it_is_and_twice_kills(start: Start, code: str) -> None:
    job = start(code, *TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0")
    all_ready(job, 2)
    job.kill(sig=signal.SIGINT)
    wait_for(lambda: "  stopping   with Ctrl-C; once more kills the ranks\n" in job.stderr, 30, "that it is heard")
    if code == STUBBORN:
        job.kill(sig=signal.SIGINT)
    assert job.wait() == 128 + signal.SIGINT
    document = ended_run(job)
    assert (document["state"], document["state_detail"]) == ("terminated", "stopped with Ctrl-C (SIGINT)")
    own = [line for line in job.stderr.splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in own if "verdict" not in line] == (
        ["dashboard", "stopping", "stopping", "stopped", "report"]
        if code == STUBBORN
        else ["dashboard", "stopping", "stopped", "report"]
    )
    assert document["warnings"] == []


def test_b11_without_finish_a_whole_run_is_finished_and_complete(start: Start) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(epochs=2)
        for epoch in mon.epochs():
            for i in range(100): mon.log({"loss": 100 * epoch + i})
            mon.log_epoch(epoch, {"accuracy": epoch})
    """
    job = start(code)
    assert job.wait() == 0, job.stderr
    document = ended_run(job)
    assert (document["state"], document["epoch"], document["ranks"]["finished"]) == ("finished", 1, 1)
    assert kept(job) == {0: LOGGED}
    assert job.stderr.count("  epoch 2/2") == 1


@pytest.mark.parametrize("ending", ["sys.exit(3)", "mon.finish(); sys.exit(3)"])
def test_d38_an_exit_code_without_an_exception_is_a_failure_all_the_same(start: Start, ending: str) -> None:
    """`finish` is the script's word that its run is over; without it the exit code decides, whoever started the script."""
    job = start(f"import sys, trackside\nmon = trackside.Monitor()\nmon.log({{'loss': 0}})\n{ending}")
    assert job.wait() == 3
    document = ended_run(job)
    if "finish" in ending:
        assert document["state"] == "finished"
        return
    assert (document["state"], document["rank_entries"][0]["exit_code"]) == ("failed", 3)
    assert document["state_detail"].endswith("exited with code 3")
    assert f"  report     {job.folder()}/report.html  (being written)" in job.stderr.splitlines()
