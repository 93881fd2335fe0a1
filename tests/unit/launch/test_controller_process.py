"""The controller's process seen by its starter: ready, restarted, missed, ended."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.launch.polling import eventually
from trackside.launch import controller_process as module
from trackside.launch.controller_process import ControllerProcess, Ready
from trackside.launch.settings import RunSettings

FAKE = Path(__file__).with_name("fake_controller.py")
pytestmark = pytest.mark.usefixtures("leak_check")


class Warnings(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def warnings() -> Warnings:
    return Warnings()


@pytest.fixture
def make(tmp_path: Path, warnings: Warnings) -> Iterator[Callable[..., ControllerProcess]]:
    made: list[ControllerProcess] = []

    def start(how: str, **settings: object) -> ControllerProcess:
        chosen = RunSettings(name=how, directory=tmp_path, **settings)  # type: ignore[arg-type]
        process = ControllerProcess(chosen, warnings, program=[sys.executable, "-S", str(FAKE)])
        process.start()
        made.append(process)
        return process

    yield start
    for process in made:
        process.stop()


def lives(tmp_path: Path) -> list[str]:
    path = tmp_path / "run" / "lives"
    return path.read_text().splitlines() if path.exists() else []


def test_it_says_where_it_is(make: Callable[..., ControllerProcess], tmp_path: Path, warnings: Warnings) -> None:
    process = make("stays")
    assert process.ready() == Ready(address="trackside1:secret", directory=str(tmp_path / "run"), run="r1")
    process.stop()
    assert process.wait(0)
    assert warnings == []


def test_options_go_to_its_command_and_secrets_do_not(
    make: Callable[..., ControllerProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_TOKEN", "hush")
    monkeypatch.setenv("RANK", "3")
    make(
        "stays", port=0, bind="0.0.0.0", hold=True, allowed_hosts="proxy.example", late_after="4", lost_after="9"
    ).ready()
    argv = json.loads((tmp_path / "run/argv").read_text())
    fd = argv[argv.index("--ready-fd") + 1]
    assert argv == [
        *["controller", "--dir", str(tmp_path), "--name", "stays", "--port", "0", "--bind", "0.0.0.0"],
        *["--allowed-hosts", "proxy.example", "--hold", "--late-after", "4", "--lost-after", "9"],
        *["--parent-pid", str(os.getpid()), "--ready-fd", fd],
    ]
    environ = json.loads((tmp_path / "run/environ").read_text())
    assert environ["TRACKSIDE_TOKEN"] == "hush"
    assert "RANK" not in environ


def test_without_a_page_it_is_told_so(make: Callable[..., ControllerProcess], tmp_path: Path) -> None:
    make("stays", page=False, port=7117).ready()
    argv = json.loads((tmp_path / "run/argv").read_text())
    assert "--no-page" in argv
    assert "--port" not in argv


def test_one_that_dies_is_started_over_the_same_run(
    make: Callable[..., ControllerProcess], tmp_path: Path, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    process = make("die:2")
    assert process.ready() is not None
    eventually(lambda: lives(tmp_path) == ["start", "resume", "resume"])
    assert warnings == ["the controller ended with code 1; starting it again"] * 2


def test_one_that_was_killed_comes_back_and_the_warning_names_the_signal(
    make: Callable[..., ControllerProcess], tmp_path: Path, warnings: Warnings
) -> None:
    make("stays").ready()
    os.kill(int((tmp_path / "run/pid").read_text()), signal.SIGKILL)
    eventually(lambda: lives(tmp_path) == ["start", "resume"])
    assert warnings == ["the controller was ended by SIGKILL; starting it again"]


def test_it_is_not_restarted_without_end(
    make: Callable[..., ControllerProcess], tmp_path: Path, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "MOST_RESTARTS", 3)
    process = make("die:99")
    assert process.wait(20)
    assert len(lives(tmp_path)) == 4
    assert warnings[-1] == "the controller died 3 times and stays down; training goes on without it"


@pytest.mark.parametrize("how", ["refuse", "mute"])
def test_one_that_cannot_start_is_warned_of_and_trained_without(
    make: Callable[..., ControllerProcess], warnings: Warnings, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(module, "READY_S", 0.5)
    process = make(how)
    assert process.ready(20) is None
    assert warnings == ["the controller did not start; training goes on without page and report"]
    assert process.wait(20)


def test_the_reason_it_gives_is_passed_on(make: Callable[..., ControllerProcess], warnings: Warnings) -> None:
    assert make("error").ready(20) is None
    assert warnings == [
        "the controller did not start: the disk is made of cheese; training goes on without page and report"
    ]


def test_one_that_leaves_by_itself_is_done(make: Callable[..., ControllerProcess], tmp_path: Path) -> None:
    process = make("leave")
    assert process.wait(20)
    assert lives(tmp_path) == ["start"]


def test_an_expected_death_is_the_end(make: Callable[..., ControllerProcess], tmp_path: Path) -> None:
    process = make("stays")
    process.ready()
    process.end()
    os.kill(int((tmp_path / "run/pid").read_text()), signal.SIGKILL)
    assert process.wait(20)
    assert lives(tmp_path) == ["start"]
