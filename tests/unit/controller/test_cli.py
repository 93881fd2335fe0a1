import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trackside.cli import COMMANDS, main
from trackside.store import RunFolder
from trackside.store.lock import FILE
from trackside.wire.machine import machine_id


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)


def test_no_line_of_the_help_is_wider_than_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_an_unknown_option_is_called_one(capsys):
    assert main(["--dance"]) == 2
    assert "there is no option '--dance'" in capsys.readouterr().err


def test_without_a_command_it_is_wrong_use(capsys):
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().out


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("trackside ")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_exists_and_says_the_same_of_itself(name):
    import importlib

    module = importlib.import_module(f"trackside.cli.{name}")
    assert COMMANDS[name] == module.SUMMARY
    assert callable(module.main)


@pytest.mark.parametrize("name", ["ls", "export", "view", "controller"])
def test_every_command_has_help(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"trackside {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["dance"], "dance"),
        (["--dance"], "--dance"),
        (["ls", "--dance"], "--dance"),
        (["controller", "--port", "99999"], "99999"),
        (["view"], "RUN_DIR"),
        (["view", "x", "--port", "y"], "'y'"),
        (["export", "x", "--format", "pdf"], "pdf"),
        (["export", "x", "--format", "parquet"], "--output"),
        (["export", "x", "--json"], "--output"),
    ],
)
def test_wrong_use_is_said_on_stderr_with_exit_code_2(arguments, named, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("trackside")
    assert named in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("command", ["view", "export"])
def test_a_folder_that_is_no_run_is_said(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


@pytest.fixture
def runs(tmp_path) -> Path:
    folder = RunFolder.create(tmp_path, "a\x1b[31m name", 1.0)
    document = {"id": "x", "name": "a\x1b[31m name", "state": "finished", "started_at": 1.0, "elapsed_seconds": 75.0}
    folder.document.write_text(json.dumps(document))
    return tmp_path


def test_runs_are_listed_without_their_control_characters(runs, capsys):
    assert main(["ls", str(runs)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "1m 15s" in out
    assert "finished" in out


def test_runs_are_listed_as_json(runs, capsys):
    assert main(["ls", str(runs), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["id"], run["state"], run["elapsed_seconds"]) == ("x", "finished", 75.0)


def test_a_missing_folder_is_said(tmp_path, capsys):
    assert main(["ls", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_importing_the_command_line_imports_no_command():
    import subprocess
    import sys

    code = "import sys, trackside.cli; print([m for m in sys.modules if m in ('numpy','zmq','starlette','duckdb','torch')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def made(root: Path, name: str, at: float, **more: object) -> Path:
    folder = RunFolder.create(root, name, at)
    folder.document.write_text(json.dumps({"id": f"id{at:.0f}", "name": name, "state": "finished", **more}))
    folder.report.write_text("<html>")
    return folder.path


def test_a_run_is_found_by_its_name_as_ls_shows_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "runs", "digits", 1.0)
    made(tmp_path / "runs", "other", 2.0)
    for which in ("digits", "id1", "19700101T000001Z-digits", "runs/19700101T000001Z-digits"):
        assert main(["export", which]) == 0
        assert capsys.readouterr().out.startswith("series,")


def test_a_name_of_several_runs_is_asked_back(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [made(tmp_path / "runs", "digits", at) for at in (1.0, 2.0)]
    assert main(["export", "digits"]) == 1
    said = capsys.readouterr().err
    assert "2 runs are called digits; give the folder of one" in said
    assert all(str(folder) in said for folder in folders)


@pytest.mark.parametrize("command", ["view", "export", "diagnose", "recover"])
def test_what_is_no_run_is_answered_with_the_runs_there_are(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = made(tmp_path / "runs", "digits", 1.0)
    assert main([command, str(folder / "report.html")]) == 1
    assert f"report.html is a file; give the run's folder: {folder}" in capsys.readouterr().err
    for wrong in ("nothing", ".", "runs"):
        assert main([command, wrong]) == 1
        said = capsys.readouterr().err
        assert f"give one of the runs in {tmp_path / 'runs'}:" in said
        assert f"{folder}  finished" in said


def test_the_runs_below_a_working_folder_are_listed(tmp_path, capsys):
    folder = made(tmp_path / "runs", "digits", 1.0, state="terminated", state_detail="stopped with Ctrl-C (SIGINT)")
    for where in (tmp_path, tmp_path / "runs", folder):
        assert main(["ls", str(where)]) == 0
        header, row = capsys.readouterr().out.splitlines()
        assert header.startswith("STARTED")
        assert "  stopped (open)  " in row
        assert row.endswith(str(folder))


def test_a_run_whose_controller_was_killed_here_is_told_from_one_that_goes_on(tmp_path, capsys):
    folder = made(tmp_path / "runs", "digits", 1.0, state="running")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (folder / FILE).write_text(json.dumps({"pid": ended.pid, "host": "here", "machine": machine_id()}))
    os.utime(folder / "run.json", (1.0, 1.0))
    assert main(["ls", str(tmp_path)]) == 0
    assert "  running (controller gone)  " in capsys.readouterr().out
    assert main(["ls", str(tmp_path), "--json"]) == 0
    assert [(run["open"], run["controller_gone"]) for run in json.loads(capsys.readouterr().out)] == [(True, True)]


def test_a_folder_without_runs_is_no_empty_table(tmp_path, capsys):
    assert main(["ls", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert (said.out, f"no run in {tmp_path}; runs lie where" in said.err) == ("", True)
