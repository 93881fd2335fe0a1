"""`trackside run` as a launcher: exit codes, signals, restarts, output. Trackside itself is switched off here.

What is marked long is seen in `test_launch_run.py` as well, where it is on.
"""

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
HOST = socket.gethostname()
SPEAK = str(SCRIPTS / "speak.py")


def launch(folder: Path, *arguments: str, nproc: int = 2, **environ: str) -> Job:
    environ = {"TRACKSIDE_DISABLED": "1", **environ}
    return Job([*TRACKSIDE, "run", "--nproc-per-node", str(nproc), *arguments], folder, **environ)


def pids(job: Job) -> dict[int, int]:
    """The ranks' processes, from what they print."""
    return {int(r): int(p) for r, p in re.findall(r"^\[[^\]]*:r(\d+)\] pid (\d+)$", job.stdout, re.M)}


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_b47_output_is_whole_prefixed_and_on_its_own_stream(scratch: Path) -> None:
    job = launch(scratch, SPEAK)
    assert job.wait() == 0
    lines = job.stdout.splitlines()
    assert sorted(line for line in lines if "pid" not in line) == [
        f"[{HOST}:r0] out 0 of 2",
        f"[{HOST}:r1] last words",
        f"[{HOST}:r1] out 1 of 2",
    ]
    assert sorted(job.stderr.splitlines()) == [f"[{HOST}:r0] err 0", f"[{HOST}:r1] err 1"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "code"),
    [
        (["--exit", "3"], 3),
        (["--signal", str(int(signal.SIGKILL))], 137),
        (["--signal", str(int(signal.SIGABRT))], 134),
    ],
)
def test_the_exit_code_is_that_of_the_rank_that_failed_first(scratch: Path, how: list[str], code: int) -> None:
    job = launch(scratch, SPEAK, *how, "--others-stay")
    assert job.wait() == code
    assert not any(alive(pid) for pid in pids(job).values())


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_ends_the_ranks_and_it(scratch: Path, number: signal.Signals) -> None:
    job = launch(scratch, SPEAK, "--rank", "9", "--others-stay")
    wait_for(lambda: len(pids(job)) == 2, 30, "both ranks")
    job.kill(sig=number)
    assert job.wait() == 128 + number
    assert not any(alive(pid) for pid in pids(job).values())


@pytest.mark.long
def test_a_launcher_that_is_killed_leaves_the_ranks_alone(scratch: Path) -> None:
    job = launch(scratch, SPEAK, "--rank", "9", "--others-stay")
    ranks = wait_for(lambda: pids(job) if len(pids(job)) == 2 else None, 30, "both ranks")
    job.kill()
    assert job.wait() == -signal.SIGKILL
    assert all(alive(pid) for pid in ranks.values())
    for pid in ranks.values():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.long
def test_elastic_restarts_are_torchs(scratch: Path) -> None:
    job = launch(scratch, "--max-restarts", "2", SPEAK, "--exit", "3", "--until-generation", "1")
    assert job.wait() == 0
    assert job.stdout.count("out 1 of 2") == 2


def test_redirects_and_tee_stay_torchs(scratch: Path) -> None:
    job = launch(scratch, "--log-dir", "logs", "--redirects", "0:3", "--tee", "1:1", SPEAK)
    assert job.wait() == 0
    written = {path.parent.name + "/" + path.name: path.read_text() for path in scratch.glob("logs/*/*/*/*.log")}
    assert sorted(written) == ["0/stderr.log", "0/stdout.log", "1/stdout.log"]
    assert written["1/stdout.log"].startswith("out 1 of 2\n")
    assert f"[{HOST}:r1] out 1 of 2" in job.stdout.splitlines()
    assert job.stderr.splitlines() == [f"[{HOST}:r1] err 1"]


def test_a_reader_that_leaves_does_not_end_the_training(scratch: Path) -> None:
    code = (
        f"{' '.join(TRACKSIDE)} run --nproc-per-node 2 {SPEAK} --after 0.5 2>/dev/null | head -n 1; "
        'echo "${PIPESTATUS[0]}"'
    )
    environ = {**os.environ, "TRACKSIDE_DISABLED": "1"}
    answer = subprocess.run(
        ["bash", "-c", code], cwd=scratch, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert answer.stdout.splitlines()[1:] == ["0"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bogus", SPEAK], "unrecognized arguments: --bogus"),
        (["nope.py"], "no script 'nope.py'"),
        pytest.param(
            ["--dir", "/proc/none", SPEAK], "run folders cannot be kept in /proc/none", marks=pytest.mark.long
        ),
        pytest.param(["--port", "x", SPEAK], "--port x", marks=pytest.mark.long),
        ([], "which script?"),
    ],
)
def test_wrong_use_is_code_2_and_nothing_was_started(scratch: Path, arguments: list[str], words: str) -> None:
    answer = subprocess.run(
        [*TRACKSIDE, "run", *arguments], cwd=scratch, capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list(scratch.iterdir()) == []


def test_without_torch_it_says_what_to_install(scratch: Path) -> None:
    (scratch / "torch").mkdir()
    (scratch / "torch/__init__.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')\n")
    answer = subprocess.run(
        [*TRACKSIDE, "run", SPEAK],
        cwd=scratch,
        env={**os.environ, "PYTHONPATH": str(scratch)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode != 0
    assert "pip install torch" in answer.stderr
    assert "Traceback" not in answer.stderr
