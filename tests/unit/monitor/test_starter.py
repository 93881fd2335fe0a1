"""Finding and starting a controller; the controller here is a script that says what a test wants."""

import gc
import json
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trackside.ingest.keys import make_keys
from trackside.monitor import starter as starter_module
from trackside.monitor.discovery import (
    children_path,
    discovery_path,
    read_address,
    sweep_addresses,
    write_address,
)
from trackside.monitor.starter import Starter
from trackside.wire.address import ControllerAddress, format_address
from trackside.wire.messages import Identity

pytestmark = pytest.mark.usefixtures("leak_check")

SINGLE = Identity(rank=0, local_rank=0, world_size=1)
PROGRAM = """
import json, os, sys, time
log, behaviour, directory = sys.argv[1:4]
arguments = sys.argv[4:]
with open(log, "a") as file:
    file.write(json.dumps(arguments) + "\\n")
ready = int(arguments[arguments.index("--ready-fd") + 1])
if behaviour == "silent": sys.exit(1)
if behaviour == "error": os.write(ready, json.dumps({"error": "the folder is full"}).encode() + b"\\n"); sys.exit(2)
os.write(ready, json.dumps({"address": os.environ["FAKE_ADDRESS"], "directory": directory, "run": "r", "pid": os.getpid()}).encode() + b"\\n")
os.close(ready)
if behaviour == "dies" and "--resume" not in arguments: sys.exit(9)
sys.stdin.read()
while os.path.exists(log): time.sleep(0.01)
"""


def address(pid: int | None = None) -> ControllerAddress:
    keys = make_keys()
    return ControllerAddress(
        run="r",
        hosts=["127.0.0.1"],
        port=1,
        server_key=keys.server_public,
        client_public=keys.client_public,
        client_secret=keys.client_secret,
        pid=pid,
    )


class Stage:
    """One starter and the log of what it started."""

    def __init__(self, folder: Path, behaviour: str, identity: Identity, environ: dict[str, str]) -> None:
        script = folder / "program.py"
        script.write_text(PROGRAM)
        self.log = folder / "started.log"
        self.log.touch()
        self.warnings: list[str] = []
        self.address = address()
        env = {**os.environ, "FAKE_ADDRESS": format_address(self.address), **environ}
        program = (sys.executable, str(script), str(self.log), behaviour, str(folder / "run"))
        self.starter = Starter(identity, None, None, env, self.warnings.append, program)

    def locate(self, seconds: float = 15) -> ControllerAddress | None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (found := self.starter.locate()) is not None or self.starter.gave_up:
                return found
            time.sleep(0.005)
        raise AssertionError("not in time")

    def started(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def end(self) -> None:
        process = self.starter._process
        self.log.unlink(missing_ok=True)
        if process is not None:
            process.wait(10)
        self.starter.forget()


Begin = Callable[..., Stage]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["/somewhere/train.py"])
    stages: list[Stage] = []

    def make(behaviour: str = "serves", identity: Identity = SINGLE, **environ: str) -> Stage:
        stages.append(Stage(tmp_path, behaviour, identity, environ))
        return stages[-1]

    yield make
    for stage in stages:
        stage.end()


def test_an_address_in_the_environment_is_taken_as_it_is(begin: Begin) -> None:
    given = address()
    stage = begin(TRACKSIDE_CONTROLLER=format_address(given))
    assert stage.locate() == given
    assert stage.started() == []


def test_a_single_process_starts_its_own_and_never_waits(begin: Begin) -> None:
    stage = begin(RANK="0", TRACKSIDE_DIR="/runs")
    assert stage.starter.locate() is None, "it was not waited for"
    assert stage.locate() == stage.address
    (arguments,) = stage.started()
    assert arguments[:5] == ["controller", "--dir", "/runs", "--name", "train"]
    assert (arguments[5], arguments[7:9]) == ("--part", ["--parent-pid", str(os.getpid())])
    assert stage.starter.is_ours


def test_a_session_that_is_over_is_not_kept_until_the_interpreter_ends(begin: Begin) -> None:
    """The process that still runs is: `Popen` would complain of it."""
    stage = begin()
    stage.locate()
    stage.starter.forget()
    stage.starter.leave()
    process, starter = stage.starter._process, weakref.ref(stage.starter)
    stage.starter = begin().starter
    gc.collect()
    assert starter() is None
    assert process is not None
    assert process.returncode is None
    stage.log.unlink()
    process.wait(10)


@pytest.mark.parametrize(("behaviour", "words"), [("error", "the folder is full"), ("silent", "did not start")])
def test_a_controller_that_cannot_start_is_one_warning(begin: Begin, behaviour: str, words: str) -> None:
    stage = begin(behaviour)
    assert stage.locate() is None
    assert stage.locate() is None
    assert len(stage.warnings) == 1
    assert words in stage.warnings[0]
    assert len(stage.started()) == 1


def test_no_program_at_all_is_one_warning(begin: Begin) -> None:
    stage = begin()
    stage.starter._program = ("/no/such/program",)
    assert stage.locate() is None
    assert "No such file" in stage.warnings[0]


def test_b32_a_controller_that_dies_is_started_again_over_the_same_run(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(starter_module, "FIRST_PAUSE_S", 0.01)
    stage = begin("dies")
    assert stage.locate() == stage.address
    deadline = time.monotonic() + 15
    while len(stage.started()) < 2:
        assert time.monotonic() < deadline
        stage.starter.check()
        time.sleep(0.01)
    assert stage.started()[1][:3] == ["controller", "--resume", str(tmp_path / "run")]
    assert stage.warnings == []


@pytest.mark.leaves_files
def test_rank_0_of_a_job_starts_it_and_the_others_find_it(begin: Begin) -> None:
    identities = [Identity(rank=rank, local_rank=rank, world_size=2, job="j") for rank in (0, 1)]
    other = begin("serves", identities[1], MASTER_PORT="29500")
    assert other.starter.locate() is None
    first = begin("serves", identities[0], MASTER_PORT="29500")
    assert first.locate() == first.address
    assert other.locate() == first.address
    assert len(first.started()) == 1


def test_a_rank_that_finds_none_says_so_and_gives_up(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter_module, "FIND_S", 0.05)
    stage = begin("serves", Identity(rank=1, local_rank=1, world_size=2))
    assert stage.locate() is None
    assert "rank 1 found no controller" in stage.warnings[0]


@pytest.mark.leaves_files
def test_d74_discovery_is_private_keyed_by_job_and_ignores_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    identity = Identity(rank=0, local_rank=0, world_size=2, job="a/../b")
    path = discovery_path(identity, {"MASTER_ADDR": "h", "MASTER_PORT": "1"})
    assert path.parent.parent == tmp_path
    assert path != discovery_path(identity, {"MASTER_ADDR": "h", "MASTER_PORT": "2"})
    write_address(path, format_address(address(os.getpid())))
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    assert read_address(path) is not None
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    write_address(path, format_address(address(gone)))
    assert read_address(path) is None
    assert not path.exists()
    path.write_text("nonsense")
    assert read_address(path) is None


def test_a_discovery_folder_that_others_may_enter_is_refused(begin: Begin, tmp_path: Path) -> None:
    folder = tmp_path / f"trackside-{os.getuid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    stage = begin("serves", Identity(rank=0, local_rank=0, world_size=2))
    assert stage.locate() is None
    assert "not private" in stage.warnings[0]
    assert stage.started() == []


@pytest.mark.leaves_files
def test_addresses_of_runs_that_have_ended_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that is killed cannot take its own away, and each holds a key."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (dead, alive), unknown = [children_path(number) for number in (1, 2)], discovery_path(SINGLE, {})
    write_address(dead, format_address(address(pid=2**22 + 1)))
    write_address(alive, format_address(address(pid=os.getpid())))
    write_address(unknown, format_address(address()))
    sweep_addresses()
    assert {path.name for path in dead.parent.iterdir()} == {alive.name, unknown.name}
