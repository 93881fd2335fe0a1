"""What the report of a failed job says first, on a phone too, and what of the page is in its address."""

import re
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.browser import made
from trackside.wire import documents

PHONE = {"width": 375, "height": 812}


@pytest.fixture
def failed(tmp_path: Path) -> str:
    """Rank 1 was killed, rank 0 was asked to end because of it."""
    ends = {0: "SIGTERM", 1: "SIGKILL"}
    who = [msgspec.structs.replace(r, state="failed", signal=ends[r.rank], exit_code=None) for r in made.ranks()]
    lost = documents.EventRecord(
        id=1, time=made.STARTED + 90, path="root/node-b/rank1", kind="rank lost", severity="critical",
        text="rank 1 is lost", count=1, step=390, last_time=made.STARTED + 90, active=True,
    )  # fmt: skip
    return made.report(
        tmp_path,
        diagnosed=made.diagnosis(),
        who=who,
        heated=made.heat(),
        events=[lost],
        state="failed",
        state_detail="rank 1 on node-b was killed by SIGKILL; 1 more failed",
        directory="/home/somebody/experiments/resnet/runs/20261130T061500Z-train",
        ranks=documents.RankCounts(failed=2),
        environment={"paused_seconds": 28_800.0},
    )


def test_the_pause_stands_beside_the_time_that_the_run_took(page: Page, failed: str) -> None:
    page.goto(failed)
    took = page.get_by_role("group", name="Took")
    expect(took).to_contain_text("1m 40s")
    expect(took.get_by_text("+ 8h 00m paused")).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_first_chart_of_a_failed_report_begins_on_the_first_screen(page: Page, failed: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(failed)
    box = page.get_by_role("article", name="loss", exact=True).bounding_box()
    assert box is not None
    assert box["y"] < PHONE["height"]
    report = page.get_by_role("note").filter(has_text="Report.")
    expect(report).to_contain_text("after 1m 40s of work and 8h 00m of pause")
    expect(page.get_by_text(re.compile("Everything shown is inside"))).to_be_hidden()
    page.get_by_role("button", name="What it holds").click()
    expect(page.get_by_text(re.compile("Everything shown is inside"))).to_be_visible()


def test_who_only_followed_is_not_said_to_have_failed_and_states_come_first(page: Page, failed: str) -> None:
    page.goto(failed + "#tab=ranks")
    note = page.get_by_role("note").filter(has_text="The run failed.")
    expect(note).to_contain_text(re.compile("killed by SIGKILL, last step 390, at .*; 1 more failed"))
    table = page.get_by_role("table", name="Ranks")
    expect(table.get_by_role("row", name=re.compile("^rank0"))).to_contain_text(re.compile(r"asked to end\s*SIGTERM"))
    expect(table.get_by_role("row", name=re.compile("^rank1"))).to_contain_text(re.compile(r"failed\s*SIGKILL\s*first"))
    page.set_viewport_size(PHONE)
    table.scroll_into_view_if_needed()
    word = table.get_by_role("row", name=re.compile("^rank1")).get_by_text("failed").bounding_box()
    assert word is not None
    assert word["x"] + word["width"] <= PHONE["width"], "nobody has to scroll sideways for it"


def test_a_column_of_which_nobody_has_anything_is_not_in_the_standings_of_a_run_that_is_over(
    page: Page, tmp_path: Path
) -> None:
    who = [msgspec.structs.replace(rank, throughput=None) for rank in made.ranks()]
    page.goto(made.report(tmp_path, who=who))
    standings = page.get_by_role("table", name="Standings")
    expect(standings.get_by_role("columnheader", name=re.compile("own step"))).to_be_visible()
    expect(standings.get_by_role("columnheader", name=re.compile("^samples"))).to_have_count(0)


def test_the_environment_has_no_raw_seconds_of_a_pause(page: Page, failed: str) -> None:
    page.goto(failed + "#tab=config")
    environment = page.get_by_role("list", name="Environment")
    expect(environment).to_contain_text("directory")
    expect(environment).not_to_contain_text("paused")


def test_the_open_part_is_in_view_after_the_window_became_narrow(page: Page, failed: str) -> None:
    page.goto(failed + "#tab=events")
    page.set_viewport_size(PHONE)
    expect(page.get_by_role("navigation", name="Parts").get_by_role("link", name="Events")).to_be_in_viewport(ratio=1)


def test_what_held_to_the_end_is_not_said_to_hold_now(page: Page, failed: str) -> None:
    page.goto(failed + "#tab=events")
    expect(page.get_by_role("listitem").filter(has_text="rank 1 is lost")).to_contain_text("to the end")
    expect(page.get_by_role("main")).not_to_contain_text("still so")


def test_the_order_of_ranks_is_in_the_address(page: Page, failed: str) -> None:
    page.goto(failed + "#tab=ranks")
    table = page.get_by_role("table", name="Ranks")
    heading = table.get_by_role("columnheader", name=re.compile("own step"))
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    page.wait_for_url(re.compile("sort=-own"))
    page.reload()
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(table.get_by_role("row").nth(1)).to_contain_text("rank1")
    page.goto(failed + "#tab=ranks&sort=own")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    table.get_by_role("columnheader", name=re.compile("^rank")).get_by_role("button").click()
    expect(heading).not_to_have_attribute("aria-sort", "ascending")
    page.wait_for_url(lambda url: "sort=" not in url)
