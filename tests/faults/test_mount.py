"""What a shared mount costs that hangs or refuses: the page answers, the training and the controller end, and it is said."""

import subprocess
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.interposed import Interposed
from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell
from tests.process.job import clean_environment, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
Watch = Callable[..., WatchedTraining]
FROM_MEMORY = (
    "api/v1/run",
    "api/v1/ranks",
    "api/v1/metrics",
    "api/v1/epochs",
    "api/v1/events",
    "api/v1/heat",
    "healthz",
)


@pytest.fixture
def mount(tmp_path: Path) -> Interposed:
    (tmp_path / "mount").mkdir()
    return Interposed(tmp_path, tmp_path / "mount")


@pytest.mark.long
def test_a_mount_that_hangs_for_good_leaves_page_training_and_ends_alone(
    mount: Interposed, watch: Watch, tell: Tell, tmp_path: Path
) -> None:
    """Also where the job's own output lies on it; a chart of what only the disk holds says so."""
    training = watch(runs=tmp_path / "mount", controller_env=mount.env, exits=6)
    training.wait_for_step(30)
    training.controller.kill()
    training.controller.resume()  # which makes a segment of what the journal held
    wait_for(lambda: training.get("healthz")["counters"]["segments"], 30, "a segment")
    mount.hang()
    wait_for(lambda: training.get("api/v1/run")["not_persisted_since"], 60, "the page says that nothing is persisted")
    silent = wait_for(
        lambda: refused(training, "api/v1/series?metric=loss"), 60, "a chart that says why it is not there"
    )
    assert (silent.code, b"disk_silent" in silent.read()) == (503, True)
    silent.close()
    for path in FROM_MEMORY:
        training.get(path)
    at = training.step()
    wait_for(lambda: training.step() > at + 30, 30, "news on the page")
    said = training.end()
    assert "not delivered" in said
    assert training.controller.wait(120) == 0
    mount.heal()
    training.controller.resume()
    training.settle()
    training.assert_complete()
    tell(
        "the run folder's mount hangs for good",
        training="same, and ends in time",
        points="all: what was not delivered lies in a file that is named, and is taken in later",
        page="live, and not persisted since when; a chart that only the disk holds says so",
        report="written by the controller that comes back; the one that hung has ended in time",
    )


def refused(training: WatchedTraining, path: str) -> urllib.error.HTTPError | None:
    try:
        training.get(path)
    except urllib.error.HTTPError as error:
        return error
    return None


@pytest.mark.long
def test_a_script_whose_run_folder_hangs_ends_in_time(mount: Interposed, tell: Tell, tmp_path: Path) -> None:
    """It looks for the report there, and its controller cannot leave."""
    code = "import sys, trackside\nmon = trackside.Monitor()\nmon.log({'loss': 1.0})\nprint('go', flush=True)\n"
    code += "sys.stdin.readline()\nmon.finish()\nprint('trained')\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment(TRACKSIDE_DIR=str(tmp_path / "mount"), TMPDIR=str(tmp_path), **mount.env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    wait_for(lambda: next(iter((tmp_path / "mount").glob("*/run.json")), None), 30, "a run folder")
    mount.hang()
    out, err = process.communicate("\n", timeout=60)
    mount.heal()
    assert (process.returncode, out) == (0, "trained\n"), err
    wait_for(lambda: next(iter((tmp_path / "mount").glob("*/report.html")), None), 60, "the report, later")
    tell(
        "the run folder's mount hangs when a script of its own ends",
        training="same, and ends in time",
        points="as above",
        page="as above",
        report="written once the mount is back",
    )
