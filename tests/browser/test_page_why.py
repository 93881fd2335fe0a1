"""Who is slow, and why: phases, verdicts, heat map; inside a report, where every state can be made."""

import re
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import made
from tests.browser.axe import violations
from tests.browser.fleet import wait_for
from trackside.wire import documents


def why(page: Page) -> Locator:
    return page.get_by_role("region", name="Why")


def heat_map(page: Page) -> Locator:
    return page.get_by_role("region", name="Heat map")


def test_a_verdict_is_told_with_its_evidence(tmp_path: Path, page: Page, shoot) -> None:
    page.goto(made.report(tmp_path, diagnosed=made.diagnosis(), model=made.graph()))
    expect(why(page)).to_contain_text("bound by input")
    expect(why(page)).to_contain_text("Data takes 53 % of a step.")
    expect(why(page)).to_contain_text("−53\u202f% of the step time")
    verdict = why(page).get_by_role("list", name="Verdicts").get_by_role("listitem")
    expect(verdict).to_contain_text("Rank 1 waits for data; 2.5 times its peers' own time.")
    expect(verdict).not_to_contain_text("180 ms a step")  # the bars have the figures
    expect(verdict).to_contain_text("−160ms a step")
    expect(verdict).to_contain_text(re.compile(r"data, rank 1\s*180ms\s*its peers\s*20\.0ms"))
    expect(verdict).to_contain_text("since step 120 · all the time")
    expect(why(page)).to_contain_text("rank 1 50.0\u202f% → 30.0\u202f%")
    why(page).get_by_text("1 verdict is over").click()
    expect(why(page)).to_contain_text("steps 9 to 10")
    expect(page.get_by_role("table", name="Standings").get_by_title("data starvation on node-b")).to_have_text(
        "▲ slowest"
    )
    shoot(page, "why")
    verdict.get_by_role("button", name="body.1.fc").click()
    expect(page.get_by_role("complementary", name="Module")).to_contain_text("body.1.fc")


def test_nobody_is_behind_and_it_says_so(tmp_path: Path, page: Page, shoot) -> None:
    fine = made.diagnosis(verdicts=[], balance=[], bound="compute", bound_text="Forward and backward take 92 %.")
    page.goto(made.report(tmp_path, diagnosed=fine, who=made.ranks(slow=None)))
    expect(why(page)).to_contain_text("Nobody is behind. Forward and backward take 92 %.")
    expect(why(page).get_by_role("list", name="Verdicts")).to_have_count(0)
    shoot(page, "why-nobody")


def test_what_is_not_known_is_said_to_be_so(tmp_path: Path, page: Page) -> None:
    page.goto(made.report(tmp_path))
    expect(why(page)).to_contain_text("nothing can be said")


def test_a_verdict_on_one_rank_is_told_at_its_path_only(tmp_path: Path, page: Page) -> None:
    page.goto(made.report(tmp_path, diagnosed=made.diagnosis()) + "#path=root/node-a/rank0")
    expect(why(page)).to_contain_text("Nobody here is behind. Elsewhere rank 1 is: data starvation.")
    why(page).get_by_role("link", name="rank 1").click()
    expect(page).to_have_url(re.compile("path=root/node-b/rank1"))
    expect(why(page)).to_contain_text("data starvation")


def test_verdicts_are_text(tmp_path: Path, page: Page) -> None:
    verdict = made.diagnosis().verdicts[0]
    evil = documents.Verdict(id=9, kind="straggler", text=made.HOSTILE, path=verdict.path, phase=made.HOSTILE)
    page.goto(made.report(tmp_path, diagnosed=made.diagnosis(verdicts=[evil], bound_text=made.HOSTILE)))
    expect(why(page).get_by_role("list", name="Verdicts")).to_contain_text(made.HOSTILE)
    assert page.evaluate("window.hit") is None


def test_phases_have_their_figures(tmp_path: Path, page: Page) -> None:
    page.goto(made.report(tmp_path, diagnosed=made.diagnosis()))
    bar = page.get_by_role("img", name=re.compile("^Phases of rank 1: data 180ms, forward 50.0ms"))
    bar.hover()
    expect(page.get_by_text("rank 1: mean of a step, recent")).to_be_visible()
    expect(page.get_by_role("list", name="Phases").first).to_contain_text(
        re.compile("data.*forward.*backward.*augment.*collective \\(waiting\\)")
    )
    bar.press("Escape")
    expect(page.get_by_text("rank 1: mean of a step, recent")).to_have_count(0)
    page.get_by_role("img", name=re.compile("^Phases of rank 0")).focus()
    expect(page.get_by_text("rank 0: mean of a step, recent")).to_be_visible()


def test_a_better_share_is_named(tmp_path: Path, page: Page) -> None:
    page.goto(made.report(tmp_path, diagnosed=made.diagnosis()) + "#path=root&tab=ranks")
    table = page.get_by_role("table", name="Ranks")
    expect(table).to_contain_text("50.0\u202f% → 30.0\u202f%")
    expect(table).to_contain_text("▲ data starvation")
    expect(table).to_contain_text("+2ms")


@pytest.mark.parametrize("table", ["Standings", "Ranks"])
def test_any_column_sorts_either_way(tmp_path: Path, page: Page, table: str) -> None:
    everyone = [
        msgspec.structs.replace(
            rank, throughput=100.0 - number, batch_share=0.1 + 0.01 * number, state="lost" if number == 2 else "alive",
            own_step_seconds=0.1 + 0.01 * (number * 3 % 5), step=400 + number, epoch=number % 3, generation=number % 2,
            cpu=0.01 * (number * 2 % 5), memory=1000 * (5 - number), clock_offset_seconds=0.001 * (number * 4 % 5),
        )
        for number, rank in enumerate(made.ranks(5, slow=None))
    ]  # fmt: skip
    tab = "overview" if table == "Standings" else "ranks"
    page.goto(made.report(tmp_path, who=everyone) + f"#path=root&tab={tab}")
    rows = page.get_by_role("table", name=table)
    wanted = {
        "rank": [0, 1, 2, 3, 4], "own step": [3, 1, 4, 2, 0], "share": [4, 3, 2, 1, 0], "samples/s": [0, 1, 2, 3, 4],
        "epoch": [2, 1, 4, 0, 3], "step": [4, 3, 2, 1, 0], "cpu": [2, 4, 1, 3, 0], "memory": [0, 1, 2, 3, 4],
        "clock": [1, 2, 3, 4, 0], "gen": [1, 3, 0, 2, 4],
    }  # fmt: skip
    columns = [name for name in wanted if table == "Ranks" or name in ("rank", "own step", "share", "samples/s", "gen")]

    def shown() -> list[int]:
        return [int(text[4:]) for text in rows.get_by_role("link").all_inner_texts()]

    for name in columns:
        header = rows.get_by_role("columnheader", name=name, exact=True)
        first, second = ("ascending", "descending") if name == "rank" else ("descending", "ascending")
        if header.get_attribute("aria-sort") != first:
            header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", first)
        wait_for(lambda name=name: shown() == wanted[name], f"the order by {name}")
        header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", second)
    rows.get_by_role("link", name="rank3").click()
    expect(page).to_have_url(re.compile("path=root/node-b/rank3"))


def test_the_heat_map_has_the_whole_run_and_is_read_by_keys(tmp_path: Path, page: Page, shoot) -> None:
    page.goto(made.report(tmp_path, heated=made.heat(4, slow=2), who=made.ranks(4, slow=2)) + "#path=root&tab=ranks")
    canvas = heat_map(page).get_by_role("img")
    expect(canvas).to_have_attribute("aria-label", re.compile("4 ranks over time; rank 2 differs most"))
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(heat_map(page).get_by_role("status")).to_contain_text(
        re.compile(r"rank 2 on node-a · 1m \d\d(\.\d+)?s since start · 31\dms")
    )
    page.keyboard.press("Home")
    expect(heat_map(page).get_by_role("status")).to_contain_text(
        re.compile(r"rank 2 on node-a · 0(\.\d\ds|s) since start · 150ms")
    )
    shoot(page, "heat")
    heat_map(page).get_by_label("Gauge").select_option("data wait")
    expect(heat_map(page)).to_contain_text("20.0ms")
    heat_map(page).get_by_label("Gauge").select_option("step time with waiting")
    expect(heat_map(page)).not_to_contain_text("differs most")
    canvas.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("path=.*rank"))


def test_a_thousand_ranks_are_seen_at_one_glance(tmp_path: Path, page: Page, shoot) -> None:
    everyone = made.ranks(1024, slow=517)
    page.goto(made.report(tmp_path, heated=made.heat(1024, 517, 64), who=everyone) + "#path=root&tab=ranks")
    expect(heat_map(page)).to_contain_text("rank 517 differs most")
    box = heat_map(page).get_by_role("img").bounding_box()
    assert box is not None
    assert box["height"] < 600
    shoot(page, "heat-1024")


@pytest.mark.parametrize(("width", "scheme"), made.VIEWS)
def test_everyone_can_read_it_at_any_width(tmp_path: Path, page: Page, scheme: str, width: int, shoot) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    url = made.report(tmp_path, diagnosed=made.diagnosis(), heated=made.heat())
    for tab in ("overview", "ranks", "config"):
        page.goto("about:blank")
        page.goto(f"{url}#path=root&tab={tab}")
        expect(page.get_by_role("main")).not_to_be_empty()
        folded = page.get_by_role("button", name=re.compile("^(Why|Standings)$"), expanded=False)
        for _ in range(folded.count()):  # the next one is the first of those that are left
            folded.first.click()
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), tab
        # A tab that is scrolled out of sight on a phone looks like a skip link to axe.
        assert [found for found in violations(page) if not found.startswith("skip-link")] == [], tab
        shoot(page, f"{tab}-{width}-{scheme}")


def test_tabs_say_that_there_are_more_and_show_the_open_one(tmp_path: Path, page: Page) -> None:
    page.set_viewport_size({"width": 375, "height": 812})
    page.goto(made.report(tmp_path))
    tabs = page.get_by_role("navigation", name="Parts")
    expect(tabs).to_have_attribute("data-more", "right")
    tabs.get_by_role("link", name="Events").click()
    expect(tabs).to_have_attribute("data-more", "left")
    expect(tabs.get_by_role("link", name="Events")).to_be_in_viewport(ratio=1)


def test_the_clock_offset_has_as_many_digits_as_it_is_worth(tmp_path: Path, page: Page) -> None:
    page.goto(made.report(tmp_path) + "#path=root&tab=config")
    expect(page.get_by_role("list", name="Environment")).to_contain_text(re.compile(r"largest clock offset\s*8\.41ms"))


def test_paper_has_it_whole(tmp_path: Path, page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(made.report(tmp_path, diagnosed=made.diagnosis(), who=made.ranks(120)))
    expect(why(page)).to_be_visible()
    expect(page.get_by_role("navigation", name="Parts")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--warn-soft')") == "#fcf0da"
    box = page.get_by_role("table", name="Standings")
    assert box.evaluate("table => table.parentElement.scrollHeight <= table.parentElement.clientHeight + 1")
