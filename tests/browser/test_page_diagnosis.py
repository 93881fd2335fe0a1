"""Who is slow, and why, live: from ranks' step times on the wire to what the page says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.fleet import Fleet, wait_for

SLOW = 0.15


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Fleet]:
    """Four ranks on two hosts."""
    started = Fleet(tmp_path, hosts=("node-a", "node-a", "node-b", "node-b"))
    yield started
    started.close()


def test_a_slow_loader_is_named_live_and_its_end_is_seen(four: Fleet, page: Page, shoot) -> None:
    four.totals = {
        rank: {"step_seconds": 0.3, "own_step_seconds": 0.1 + (SLOW if rank == 2 else 0)} for rank in range(4)
    }
    four.log({"loss": [1.0, 0.5]})
    page.goto(four.url)
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("Not known yet")
    four.steps(0, 60, {2: SLOW})
    verdict = why.get_by_role("list", name="Verdicts").get_by_role("listitem")
    expect(verdict).to_have_count(1)
    expect(verdict).to_contain_text(re.compile(r"data starvation.*rank 2", re.S))
    expect(verdict).to_contain_text(re.compile(r"data, rank 2\s*15\dms\s*its peers\s*5\.\d\dms"))
    expect(page.get_by_role("complementary", name="Newest warning")).to_contain_text("rank 2")
    mark = page.get_by_role("table", name="Standings").get_by_title("data starvation on node-b")
    expect(mark).to_have_text("▲ slowest")
    shoot(page, "diagnosis")

    page.get_by_role("navigation", name="Parts").get_by_role("link", name="Ranks").click()
    heat = page.get_by_role("region", name="Heat map")
    expect(heat.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("4 ranks over time; rank 2 differs most")
    )
    page.get_by_role("navigation", name="Parts").get_by_role("link", name="Overview").click()

    for first in range(60, 460, 40):
        four.steps(first, 40, {})
    expect(why).to_contain_text("Nobody is behind.")
    expect(why).to_contain_text("1 verdict is over")
    expect(page.get_by_role("complementary", name="Newest warning")).to_have_count(0)


def test_a_healthy_run_names_nobody(four: Fleet, page: Page) -> None:
    four.steps(0, 200, {})
    page.goto(four.url)
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("Nobody is behind.")
    expect(why.get_by_role("img", name=re.compile("^Phases of the job: data 5"))).to_be_visible()


def test_a_report_of_a_real_run_has_why_and_heat_map(four: Fleet, page: Page) -> None:
    four.totals = {rank: {"step_seconds": 0.3, "own_step_seconds": 0.1} for rank in range(4)}
    four.steps(0, 60, {2: SLOW})
    wait_for(lambda: (four.read("api/v1/run")["diagnosis"] or {}).get("verdicts"), "a verdict")
    four.finish()
    assert four.controller.wait() == 0
    page.goto((four.controller.folder / "report.html").as_uri())
    expect(page.get_by_role("region", name="Why")).to_contain_text("rank 2")
    page.goto(page.url + "#path=root&tab=ranks")
    heat = page.get_by_role("region", name="Heat map").get_by_role("img")
    expect(heat).to_have_attribute("aria-label", re.compile("4 ranks over time; rank 2 differs most"))
