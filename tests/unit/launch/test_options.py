"""The command line of `trackside run`."""

from pathlib import Path

import pytest

from trackside.errors import LaunchError, UsageError
from trackside.launch import options as module
from trackside.launch.options import parse_options
from trackside.launch.settings import RunSettings, writable_directory


@pytest.fixture(autouse=True)
def folder(scratch: Path) -> Path:
    (scratch / "train.py").write_text("")
    return scratch


def refusal(*arguments: str, **environ: str) -> str:
    with pytest.raises(UsageError) as refused:
        parse_options(arguments, environ)
    return str(refused.value)


def test_torchruns_options_and_ours_stand_before_the_script(folder: Path) -> None:
    options = parse_options(
        ["--nproc-per-node", "2", "--max-restarts=3", "--port", "0", "--hold", "train.py", "--port", "its own", "-x"],
        {},
    )
    assert options.settings == RunSettings(name="train", directory=folder / "runs", port=0, hold=True)
    assert (options.processes, options.max_nodes, options.torch.max_restarts) == (2, 1, 3)
    assert options.torch.training_script_args == ["--port", "its own", "-x"]


def test_an_option_of_ours_behind_the_script_is_the_scripts_and_a_note_says_so(folder: Path) -> None:
    options = parse_options(["train.py", "--port=7117", "--lr", "3"], {})
    assert options.settings.port is None
    assert options.note == (
        "--port stands behind train.py and is the script's; for Trackside it stands before: trackside run --port … train.py"
    )
    assert parse_options(["--port", "0", "train.py", "--lr", "3"], {}).note is None
    (folder / "train.py").write_text("class Options:\n    port: int = 1\n")
    assert parse_options(["train.py", "--port", "7117"], {}).note is None, "it has one of its own"
    assert (parse_options(["train.py", "--no-page"], {}).note or "").startswith("--no-page stands behind")


def test_the_scripts_own_options_are_never_taken_for_ours() -> None:
    own = ["--signal", "9", "--no", "--n", "3", "--rdzv", "-r"]
    assert parse_options(["train.py", *own], {}).torch.training_script_args == own


def test_argument_before_environment_before_default(folder: Path) -> None:
    environ = {
        "TRACKSIDE_NAME": "from environ",
        "TRACKSIDE_PORT": "7200",
        "TRACKSIDE_BIND": "0.0.0.0",
        "TRACKSIDE_DIR": "elsewhere",
    }
    by_environ = parse_options(["train.py"], environ).settings
    assert by_environ == RunSettings(name="from environ", directory=folder / "elsewhere", port=7200, bind="0.0.0.0")
    by_argument = parse_options(
        ["--name", "mine", "--port", "7300", "--bind", "127.0.0.1", "--dir", "here", "train.py"], environ
    ).settings
    assert by_argument == RunSettings(name="mine", directory=folder / "here", port=7300, bind="127.0.0.1")


def test_b30_the_limits_of_silence_are_checked_before_anything_is_started() -> None:
    settings = parse_options(["--late-after", "4", "train.py"], {"TRACKSIDE_LOST_AFTER": "9"}).settings
    assert (settings.late_after, settings.lost_after) == ("4", "9")
    assert "TRACKSIDE_LOST_AFTER 'x'" in refusal("train.py", TRACKSIDE_LOST_AFTER="x")
    assert "--late-after 'soon'" in refusal("--late-after", "soon", "train.py")


def test_a_script_that_does_not_exist_is_said_before_anything_is_made(folder: Path) -> None:
    assert "no script 'nope.py' in" in refusal("nope.py")
    assert "no module named 'no_such_module.x'" in refusal("-m", "no_such_module.x")
    assert "no program 'no-such-program'" in refusal("--no-python", "no-such-program")
    assert list(folder.iterdir()) == [folder / "train.py"]


def test_modules_and_programs_are_found() -> None:
    assert parse_options(["-m", "json.tool"], {}).settings.name == "tool"
    assert parse_options(["--no-python", "true"], {}).settings.name == "true"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "which script?"),
        (["--bogus", "train.py"], "unrecognized arguments: --bogus"),
        (["--nproc-per-node", "many", "train.py"], "--nproc-per-node many"),
        (["--nproc-per-node", "0", "train.py"], "leaves no rank to run"),
        (["--nnodes", "2:x", "train.py"], "--nnodes 2:x"),
        (["--nnodes", "3:2", "train.py"], "leaves no rank to run"),
        (["--max-restarts", "x", "train.py"], "--max-restarts"),
        (["--port", "70000", "train.py"], "--port 70000: a port is a number from 0 to 65535"),
        (["--port", "-1", "train.py"], "--port"),
        (["--no-page", "--port", "1", "train.py"], "contradict each other"),
    ],
)
def test_wrong_use_is_one_clear_sentence(arguments: list[str], words: str) -> None:
    text = refusal(*arguments)
    assert words in text
    assert len(text.splitlines()) <= 2


def test_a_wrong_variable_is_named() -> None:
    assert "TRACKSIDE_PORT x: a port is a number" in refusal("train.py", TRACKSIDE_PORT="x")


def test_a_folder_that_takes_no_files_is_refused(folder: Path) -> None:
    assert f"run folders cannot be kept in {folder}/train.py/runs: a file is in the way ({folder}/train.py)" in refusal(
        "--dir", "train.py/runs", "train.py"
    )
    assert f"{folder}/train.py: a file is in the way ({folder}/train.py)" in refusal("--dir", "train.py", "train.py")


def test_trying_a_folder_leaves_nothing(folder: Path) -> None:
    assert writable_directory("a/b", keep=False) == folder / "a/b"
    assert not (folder / "a").exists()


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.sys.modules, "torch.distributed", None)
    with pytest.raises(LaunchError, match="pip install torch"):
        parse_options(["train.py"], {})


@pytest.mark.parametrize("bind", ["999.1.1.1", "no such host", "203.0.113.7"])
def test_an_address_that_is_not_this_machines_is_wrong_use(bind: str) -> None:
    assert f"--bind {bind}: " in refusal("--bind", bind, "train.py")
