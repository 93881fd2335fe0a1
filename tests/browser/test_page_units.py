"""Parts of the page that need no browser, by their own tests in `web/`: a chart is a canvas, and tells nobody what it drew."""

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

FILES = ("src/charts/aligned.test.ts", "src/lib/text.test.ts", "src/state/view.test.ts", "src/state/model.test.ts")


@cache
def outcomes() -> dict[str, str]:
    """`passed` or `failed` by the name of each test."""
    web = ROOT / "web"
    command = [str(web / "node_modules/.bin/vitest"), "run", "--reporter=json", *FILES]
    done = subprocess.run(command, cwd=web, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert {Path(result["name"]).name for result in found["testResults"]} == {Path(name).name for name in FILES}
    return {test["title"]: test["status"] for result in found["testResults"] for test in result["assertionResults"]}


def told(word: str) -> list[str]:
    return [status for title, status in outcomes().items() if title.startswith(f"test_{word} ")]


def test_d62_a_point_between_two_that_are_not_finite_is_a_dot() -> None:
    assert told("d62") == ["passed"]


def test_d63_the_range_of_y_is_that_of_finite_values() -> None:
    assert told("d63") == ["passed"]


def test_d61_what_is_not_finite_is_a_gap_in_the_line() -> None:
    assert told("d61") == ["passed"]


def test_d68_a_filter_takes_any_name_as_it_is() -> None:
    assert told("d68") == ["passed"]


def test_lesson_a_metric_that_began_late_is_not_drawn_from_the_left_edge() -> None:
    assert told("lesson") == ["passed"]


@pytest.mark.parametrize(("rule", "count"), [("b38", 2), ("b40", 2)])
def test_b38_b40_legends_levels_and_order_of_the_page(rule: str, count: int) -> None:
    assert told(rule) == ["passed"] * count
