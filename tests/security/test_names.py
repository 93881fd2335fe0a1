"""Whatever a run, a host or a metric is called: it becomes no path, no markup, no command of a terminal, no formula."""

from pathlib import Path

import pytest

from tests.security.hostile import TEXTS
from tests.unit.run.play import Play
from trackside.monitor import console
from trackside.sinks.report import escape_json, inline_page
from trackside.sinks.terminal import escape_controls
from trackside.store import RunFolder
from trackside.store.export import safe_cell
from trackside.wire.ids import slug

NAMES = [
    *TEXTS.values(),
    "",
    ".",
    "..",
    "/",
    "~",
    "a/../../b",
    "C:\\x",
    "\0",
    "con",
    "-rf",
    "x" * 5000,
    "é" * 300,
    "💥",
]
FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x")


@pytest.mark.parametrize("name", NAMES)
def test_d82_a_runs_name_is_one_folder_below_its_base(tmp_path: Path, name: str) -> None:
    base = tmp_path / "runs"
    first, second = (RunFolder.create(base, name, 1e9) for _ in range(2))
    assert first.path.parent == second.path.parent == base
    assert first.path != second.path
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
    assert slug(name).isascii()
    assert not slug(name).startswith((".", "-"))


@pytest.mark.parametrize("name", NAMES)
def test_d82_a_hosts_name_is_one_level_of_the_tree(name: str) -> None:
    play = Play()
    play.hello(0, 1, name)
    (rank,) = play.machine.rank_entries(play.now)
    assert rank.path.count("/") == 2
    assert rank.path.startswith("root/")
    assert rank.path.endswith("/rank0")


@pytest.mark.parametrize("text", NAMES)
def test_what_is_printed_is_one_line_that_steers_nothing(text: str) -> None:
    for line in (escape_controls(text), console.clean(text)):
        assert line.isprintable(), line


@pytest.mark.parametrize("text", [*FORMULAS, TEXTS["formula"]])
def test_a_cell_is_no_formula(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", TEXTS.values())
def test_d83_no_text_ends_the_reports_data(text: str) -> None:
    page = inline_page(
        {"index.html": b"<html><head><meta charset=utf-8></head><body></body></html>"}, text.encode(), text
    )
    assert page.count(b"<script") == page.count(b"</script>") == 1
    assert b"<!--" not in escape_json(text.encode())
