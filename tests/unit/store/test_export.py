import csv
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.unit.store.station import Station
from trackside.errors import RunFolderError, StoreError
from trackside.store import COLUMNS, Exported, RunFolder, export_run, read_points
from trackside.store.export import safe_cell

NAMES = ["loss", "=1+1", "+a", "-b", "@SUM(A1)", "\tx", "\rx", 'q"uo,te', "<b>", "a\nb", "🙂"]


@pytest.fixture
def run(folder: RunFolder) -> RunFolder:
    """Closed, with names a spreadsheet would run and values that are no numbers."""
    station = write(folder)
    assert station.close()
    return folder


def write(folder: RunFolder) -> Station:
    station = Station(folder)
    station.greet(0)
    for name in NAMES:
        station.log(0, 0, [{name: 1.5}])
    station.log(0, 1, [{"loss": value} for value in (math.nan, math.inf, -math.inf)])
    station.wait_durable()
    return station


def exported(run: RunFolder, format: str) -> str:
    out = io.StringIO()
    assert export_run(run.path, format, out) == Exported(len(NAMES) + 3, [])
    return out.getvalue()


def test_csv_is_harmless_in_a_spreadsheet(run: RunFolder) -> None:
    header, *rows = csv.reader(io.StringIO(exported(run, "csv"), newline=""))
    assert tuple(header) == COLUMNS
    assert not [cell for row in rows for cell in row[:2] if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert sorted({row[0] for row in rows}) == sorted(safe_cell(name) for name in NAMES)
    assert [row[7] for row in rows if row[0] == "loss"] == ["1.5", "NaN", "Infinity", "-Infinity"]
    assert {row[1] for row in rows} == {"root/node-a/rank0"}
    assert {row[4] for row in rows} == {""}


def test_jsonl_is_json_with_names_as_they_were(run: RunFolder) -> None:
    rows = [json.loads(line, parse_constant=pytest.fail) for line in exported(run, "jsonl").splitlines()]
    assert tuple(rows[0]) == COLUMNS
    assert sorted({row["series"] for row in rows}) == sorted(NAMES)
    assert [row["value"] for row in rows if row["series"] == "loss"] == [1.5, "NaN", "Infinity", "-Infinity"]
    assert rows[0]["epoch"] is None


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_file_appears_whole(run: RunFolder, tmp_path: Path, format: str) -> None:
    target = tmp_path / f"points.{format}"
    assert export_run(run.path, format, target=target) == Exported(len(NAMES) + 3, [])
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [target.name]
    if format == "parquet":
        assert sorted(pd.read_parquet(target).series.unique()) == sorted(NAMES)
    else:
        assert target.read_bytes().decode() == exported(run, format)


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_run_that_is_not_closed_is_exported_too(folder: RunFolder, tmp_path: Path, format: str) -> None:
    station = write(folder)
    station.rotate()
    station.log(0, 9, [{"loss": 7.0}])
    station.wait_durable()
    assert export_run(folder.path, format, target=tmp_path / "out") == Exported(len(NAMES) + 4, [])
    assert sorted(read_points(folder.path))[-1] == max(read_points(folder.path))
    assert ("loss", 9, 7.0) in set(read_points(folder.path))
    station.close(clean=False)


def test_parquet_goes_to_a_pipe_and_not_to_a_terminal(run: RunFolder, tmp_path: Path) -> None:
    code = f"from trackside.store import export_run; export_run({str(run.path)!r}, 'parquet')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr
    (tmp_path / "piped.parquet").write_bytes(result.stdout)
    assert len(pd.read_parquet(tmp_path / "piped.parquet")) == len(NAMES) + 3
    with pytest.raises(StoreError, match="parquet is no text; name a file with --output"):
        export_run(run.path, "parquet", io.StringIO())


def test_what_cannot_be_done_is_said(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unknown format 'xml'; one of csv, parquet, jsonl"):
        export_run(run.path, "xml")
    with pytest.raises(RunFolderError, match="does not exist"):
        export_run(tmp_path / "nothing", "csv")
    for format in ("csv", "parquet"):
        with pytest.raises(StoreError, match=r"no/such/points cannot be written"):
            export_run(run.path, format, target=tmp_path / "no" / "such" / "points")
    run.point_files()[0].write_bytes(b"PAR1 no")
    with pytest.raises(StoreError, match="the points cannot be read"):
        list(read_points(run.path))
    with pytest.raises(
        StoreError, match=r"no points that can be read; points/.* is damaged: an unknown number of points"
    ):
        export_run(run.path, "parquet", target=tmp_path / "points")


def test_a_run_without_points_exports_nothing(folder: RunFolder, tmp_path: Path) -> None:
    Station(folder).close()
    out = io.StringIO()
    assert export_run(folder.path, "csv", out) == Exported(0, [])
    assert out.getvalue() == ",".join(COLUMNS) + "\n"
    assert export_run(folder.path, "parquet", target=tmp_path / "a.parquet") == Exported(0, [])
