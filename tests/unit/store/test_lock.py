"""Who may write a run folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trackside.errors import RunBusyError
from trackside.store import FolderLock, RunFolder
from trackside.store.lock import FILE, holder_has_gone
from trackside.wire.machine import machine_id


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "run", 0.0)


def claim(folder: RunFolder, **holder: object) -> None:
    (folder.path / FILE).write_text(json.dumps(holder))


def test_one_holds_it_until_it_lets_go_and_leaves_nothing(folder: RunFolder) -> None:
    lock = FolderLock(folder)
    with pytest.raises(RunBusyError, match=f"still there: pid {os.getpid()} on "):
        FolderLock(folder, wait_s=0)
    lock.release()
    lock.release()
    assert not (folder.path / FILE).exists()
    FolderLock(folder, wait_s=0).release()


def test_a_killed_holder_holds_nothing(folder: RunFolder) -> None:
    code = "import sys, os; from trackside.store import *; l = FolderLock(RunFolder.open(sys.argv[1])); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code, str(folder.path)], timeout=60)
    assert done.returncode == -9
    assert (folder.path / FILE).exists()
    FolderLock(folder, wait_s=0).release()


def test_whether_the_holder_has_gone_is_told_without_a_lock(folder: RunFolder) -> None:
    folder.document.write_text("{}")
    os.utime(folder.document, (1.0, 1.0))
    assert not holder_has_gone(folder)  # nobody says who it was
    lock = FolderLock(folder)
    assert not holder_has_gone(folder)
    lock.release()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    claim(folder, pid=child.pid, host="here", machine=machine_id())
    assert holder_has_gone(folder)
    os.utime(folder.document)  # somebody writes it
    assert not holder_has_gone(folder)
    os.utime(folder.document, (1.0, 1.0))
    claim(folder, pid=child.pid, host="there", machine="another")
    assert not holder_has_gone(folder)


def test_who_waited_for_a_lock_that_was_removed_does_not_hold_it(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its opening of the file and its lock, the holder goes, and a third one takes a new file."""
    third: list[FolderLock] = []
    real = os.open

    def open_and_be_late(path, *arguments):
        descriptor = real(path, *arguments)
        if not third and str(path).endswith(FILE):
            third.append(None)  # type: ignore[arg-type]
            Path(path).unlink()
            third[0] = FolderLock(folder, wait_s=0)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_be_late)
    with pytest.raises(RunBusyError):
        FolderLock(folder, wait_s=0)
    third[0].release()


def test_on_another_host_the_age_of_the_document_tells_where_locks_do_not_reach(folder: RunFolder) -> None:
    claim(folder, pid=1, host="gpu-02", machine="another")
    folder.document.write_text("{}")
    with pytest.raises(RunBusyError, match="pid 1 on gpu-02"):
        FolderLock(folder, wait_s=0)
    os.utime(folder.document, (0, 0))
    FolderLock(folder, wait_s=0).release()


@pytest.mark.parametrize(("pid", "is_free"), [(os.getppid(), False), (2**22 + 1, True)])
def test_without_locks_a_process_that_runs_here_holds_it(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, pid: int, is_free: bool
) -> None:
    from trackside.wire.machine import machine_id

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    claim(folder, pid=pid, host="here", machine=machine_id())
    if is_free:
        FolderLock(folder, wait_s=0).release()
    else:
        with pytest.raises(RunBusyError):
            FolderLock(folder, wait_s=0)
