"""What a shared mount costs that hangs or refuses: the page answers, the training and the controller end, and it is said."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.faults.interposed import Interposed
from tests.faults.job import WatchedTraining, report_of
from tests.faults.outcomes import Tell, show
from tests.process.job import clean_environment, wait_for
from trackside.controller.viewing import ViewedFolder

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
    stalled = training.stalls("the disk has not answered")
    silent = wait_for(
        lambda: refused(training, "api/v1/series?metric=loss"), 60, "a chart that says why it is not there"
    )
    chart = show(
        "a chart that only the disk holds says so", (silent.code, b"disk_silent" in silent.read()), (503, True)
    )
    silent.close()
    for path in FROM_MEMORY:
        training.get(path)
    training.end(30)
    named = training.undelivered()
    left = show("what was not delivered lies in files that are named", [*map(Path.exists, named)], [True] * len(named))
    ended = show("the controller that hung ends in time", training.controller.wait(120), 0)
    mount.heal()
    training.controller.resume()
    training.settle()
    taken = show("they are taken in later", named and [*map(Path.exists, named)], [False] * len(named))
    tell(
        "the run folder's mount hangs for good",
        training=training.same("same, and ends within 30 s"),
        points=(left, taken, training.complete()),
        page=(stalled, chart),
        report=(ended, training.reported(words="finished, with all points: written by the one that comes back")),
    )


def test_a_page_over_a_run_folder_answers_while_its_mount_hangs(
    mount: Interposed, watch: Watch, tell: Tell, tmp_path: Path
) -> None:
    """`trackside view` beside the run; all that is not a curve is answered, and it ends when it is asked to."""
    training = watch(runs=tmp_path / "mount")
    training.wait_for_step(30)
    command = [sys.executable, "-m", "trackside", "view", str(training.controller.folder), "--port", "0", "--json"]
    process = subprocess.Popen(command, env=clean_environment(**mount.env), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        mount.hang()
        wait_for(lambda: mount.met, 30, "a look at the folder that does not come back")
        said = wait_for(lambda: disk_warnings(url), 60, "the page says that the disk does not answer")
        for path in (*FROM_MEMORY, "api/v1/graph", "api/v1/resources", "api/v1/report"):
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url + path, timeout=40) as answer:
                assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        code = process.wait(10)
    finally:
        mount.heal()
        process.kill()
        process.wait(10)
        process.stdout.close()
    training.end()
    training.settle()
    words = "the disk of the run folder has not answered for 10 s, look at its mount; what is in memory is still shown"
    tell(
        "the mount hangs for `trackside view`",
        training=training.same(),
        points=training.complete(),
        page=(show(words, said, [words]), show("it ends when it is asked to", code, 0)),
        report=training.reported(),
    )


def disk_warnings(url: str) -> list[str]:
    with urllib.request.urlopen(url + "api/v1/run", timeout=5) as answer:
        return [warning["text"] for warning in json.loads(answer.read())["warnings"] if warning["kind"] == "disk"]


def test_a_controller_that_replays_from_a_disk_that_hangs_ends_when_it_is_asked_to(watch: Watch, tell: Tell) -> None:
    """The last file of the journal is one that nobody writes: whoever reads it waits, as on a server that has gone."""
    training = watch()
    training.wait_for_step(30)
    training.controller.kill()
    journal = training.controller.folder / "journal"
    hanging = journal / f"{max(int(path.stem) for path in journal.glob('*.log')) + 1:06d}.log"
    os.mkfifo(hanging)
    resuming = threading.Thread(target=training.controller.resume, daemon=True)  # until it says that it is ready
    killed = training.controller.process
    resuming.start()
    wait_for(lambda: training.controller.process is not killed, 10, "the controller that replays")
    wait_for(lambda: waits_for_a_file(training.controller.process.pid), 30, "somebody who waits for the journal")
    training.controller.process.terminate()
    ended = training.controller.process.wait(20), "has not answered" in training.controller.stderr
    gone = training.page_is_gone()
    resuming.join(10)
    hanging.unlink()
    training.controller.resume()
    back = show("back when it is resumed", training.moves_on(), True)
    training.end()
    training.settle()
    tell(
        "the controller is asked to end while the disk holds back the journal that it replays",
        training=training.same(),
        points=training.complete(),
        page=(show("it ends within seconds and says why", ended, (1, True)), gone, back, training.page_ended()),
        report=training.reported(),
    )


def waits_for_a_file(pid: int) -> bool:
    """Whether a thread of a process is held up by a file that nobody writes."""
    return any((task / "wchan").read_text() == "wait_for_partner" for task in Path(f"/proc/{pid}/task").iterdir())


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
    same = show(
        "same, and ends within a minute", (process.returncode, out, "not delivered" in err), (0, "trained\n", True)
    )
    report = wait_for(lambda: next(iter((tmp_path / "mount").glob("*/report.html")), None), 60, "the report, later")
    wait_for(lambda: not (report.parent / "journal").exists(), 60, "a clean end")
    values = pd.read_parquet(report.parent / "points").value.tolist()
    seen = ViewedFolder(report.parent)
    state = seen.run().state
    seen.close()
    tell(
        "the run folder's mount hangs when a script of its own ends",
        training=same,
        points=show("all, each once, once the mount is back", values, [1.0]),
        page=show("finished, as `trackside view` shows it", state, "finished"),
        report=show("written once the mount is back", report_of(report)["run"]["state"], "finished"),
    )
