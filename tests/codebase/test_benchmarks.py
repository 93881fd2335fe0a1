"""`benchmarks/RESULTS.md` says what the saved figures say, and a broken budget is seen."""

import importlib
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def tables(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes the table; it is a program and finds its neighbours beside itself."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    return importlib.import_module("table")


def kept_results(root: Path, folder: Path) -> Path:
    """The results that are in the repository; one that was just measured here is not, until it is committed."""
    listed = subprocess.run(
        ["git", "ls-files", "benchmarks/results"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.split()
    for name in listed:
        shutil.copy(root / name, folder)
    return folder


def test_table_is_what_the_results_say(
    root: Path, tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RESULTS", kept_results(root, tmp_path))
    monkeypatch.setattr(tables, "TARGET", tmp_path / "RESULTS.md")
    assert tables.documents()
    written = tables.write().read_text()
    assert (root / "benchmarks/RESULTS.md").read_text() == written, "run python benchmarks/table.py"


def test_every_result_has_its_benchmark(root: Path, tables: ModuleType) -> None:
    known = importlib.import_module("run").benchmarks()
    assert {result["benchmark"] for result in tables.documents()} <= known.keys()


@pytest.mark.parametrize(
    ("value", "bound", "verdict"),
    [(9.0, "most", "✓"), (11.0, "most", "✗"), (9.0, "least", "✗"), (11.0, "least", "✓"), (None, "most", "")],
)
def test_planted_figures_are_judged(tables: ModuleType, value: float | None, bound: str, verdict: str) -> None:
    figure = tables.Figure("it | that", value, "ms", budget=10, bound=bound)
    row = tables.row_of(figure)
    assert row[-1] == verdict
    assert "it \\| that" in tables.markdown(["what"], [row[:1]])


def test_peers_that_failed_are_shown(tables: ModuleType) -> None:
    text = tables.comparison({"c": {"slow": {"error": "Traceback\nIt broke"}}, "g": {}})
    assert "failed: It broke" in text
    assert "8 ranks" not in text
