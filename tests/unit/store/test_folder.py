import json
import os
from pathlib import Path

import pytest

from tests.unit.store.station import new_folder
from trackside.errors import RunFolderError, StoreError
from trackside.store import RunFolder
from trackside.store.numbering import parquet_name, span_of, standing

PRIVATE = 0o700


def test_it_is_named_after_time_and_name_and_its_path_is_absolute(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create("runs", "my run/../é", 1_700_000_000.0)
    assert folder.path == tmp_path / "runs" / "20231114T221320Z-my-run"
    assert folder.path.is_absolute()
    assert sorted(path.name for path in folder.path.iterdir()) == ["journal", "points", "resources"]
    assert folder.journal.stat().st_mode & 0o777 == PRIVATE


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    names = [new_folder(tmp_path, "a").path.name for _ in range(3)]
    assert names == ["20231114T221320Z-a", "20231114T221320Z-a-2", "20231114T221320Z-a-3"]


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "..", "", "\x00", "a" * 10_000, "<b>", "🙂"])
def test_no_name_leads_out_of_the_base(tmp_path: Path, name: str) -> None:
    assert new_folder(tmp_path, name).path.parent == tmp_path


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match=r"no run folder can be made in .*runs: a file is in the way.*--dir"):
        RunFolder.create(tmp_path / "runs", "a", 0)
    with pytest.raises(StoreError, match="a file is in the way"):
        RunFolder.create(tmp_path / "runs" / "deeper", "a", 0)


def test_an_unwritable_base_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"/proc/no/such: No such file or directory"):
        RunFolder.create("/proc/no/such", "a", 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_base_says_why(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied"):
        RunFolder.create(tmp_path, "a", 0)


def test_what_is_no_run_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="does not exist"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(RunFolderError, match=r"is no run folder \(no run.json, journal or points in it\)"):
        RunFolder.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be read: a file is in the way"):
        RunFolder.open(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "list instead of an object"),
        (json.dumps({"schema_version": 2}), r"schema 2, this trackside reads up to 1; upgrade it"),
        (json.dumps({"schema_version": "x"}), "schema 'x'"),
    ],
)
def test_a_document_that_is_none_is_refused(folder: RunFolder, text: str, words: str) -> None:
    folder.document.write_text(text)
    with pytest.raises(RunFolderError, match=words):
        folder.read_document()


def test_files_are_whole_or_not_there(folder: RunFolder, monkeypatch) -> None:
    folder.write_whole(folder.report, b"old")

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        folder.write_whole(folder.report, b"new")
    assert folder.report.read_bytes() == b"old"
    assert [path.name for path in folder.path.iterdir() if path.is_file()] == ["report.html"]


def test_nothing_is_written_outside(folder: RunFolder, tmp_path: Path) -> None:
    (folder.path / "link").symlink_to(tmp_path)
    for path in (tmp_path / "x", folder.path / ".." / "x", folder.path / "link" / "x"):
        with pytest.raises(StoreError, match="does not lie in the run folder"):
            folder.write_whole(path, b"")
    assert not (tmp_path / "x").exists()


def test_a_merged_file_stands_for_its_parts(folder: RunFolder) -> None:
    for first, last in ((1, 1), (2, 2), (1, 2), (3, 3), (4, 6), (5, 5)):
        (folder.points / parquet_name(first, last)).touch()
    for name in ("notes.parquet", "1.parquet", "000009-000008.parquet", "000000.parquet", "000007.parquet.tmp"):
        (folder.points / name).touch()
    assert [span_of(path) for path in folder.point_files()] == [(1, 2), (3, 3), (4, 6)]
    assert standing([]) == []


def test_sweeping_leaves_what_stands(folder: RunFolder) -> None:
    for name in ("000001.parquet", "000002.parquet", "000001-000002.parquet"):
        (folder.points / name).touch()
    (folder.journal / "points-000003.parquet.tmp").touch()
    (folder.path / ".run.json-abc.tmp").touch()
    (folder.journal / "000003.log").touch()
    folder.sweep()
    left = sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file())
    assert left == ["journal/000003.log", "points/000001-000002.parquet"]
