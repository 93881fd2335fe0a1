"""The Model tab: the graph of what really ran, by pointer and by keys, live and inside a report."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import made
from tests.browser.axe import violations
from tests.browser.fleet import Fleet
from trackside.wire import documents, messages

TAB = "#path=root&tab=model"


def module(page: Page, name: str) -> Locator:
    return page.get_by_role("treeitem", name=re.compile(rf"^{name}, "))


def details(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Module")


def module_times(graph: documents.GraphDocument, passes: int) -> messages.ModuleTimes:
    """The n-th module takes n ms forward and twice as long backward."""
    ids = np.arange(len(graph.nodes))
    return messages.ModuleTimes(
        passes=passes,
        module=ids.astype("<u4").tobytes(),
        forward=(ids * 0.001).astype("<f8").tobytes(),
        backward=(ids * 0.002).astype("<f8").tobytes(),
        graph=graph.hash,
    )


@pytest.fixture
def report(tmp_path: Path, page: Page) -> Page:
    page.goto(made.report(tmp_path, model=made.graph()) + TAB)
    expect(module(page, "head")).to_be_visible()
    return page


def test_the_graph_of_a_live_run_is_drawn(fleet: Fleet, page: Page, shoot) -> None:
    fleet.log({"loss": [1.0, 0.5]})
    fleet.watch(made.graph(timed=False))
    page.goto(fleet.url + TAB)
    expect(page.get_by_role("tree", name="Modules in execution order")).to_be_visible()
    expect(page.get_by_role("region", name="Model")).to_contain_text("12.5\u202fk parameters, all trainable")
    names = page.get_by_role("treeitem").evaluate_all(
        "all => all.map(one => one.querySelector('title').textContent.split(',')[0]).sort()"
    )
    assert names == sorted(["body", "0", "1", "2", *["fc", "act"] * 3, "head"])
    shoot(page, "model")


def test_details_are_read_by_pointing(report: Page) -> None:
    expect(details(report)).to_contain_text("the whole model")
    module(report, "head").hover()
    expect(details(report)).to_contain_text("shared with")
    expect(details(report)).to_contain_text("8 × 64 float32")
    expect(details(report)).to_contain_text(re.compile(r"forward\s*11\.0ms"))
    expect(details(report)).to_contain_text("4\u202f160, all trainable")
    report.get_by_role("heading", name="Model", exact=True).hover()
    expect(details(report)).to_contain_text("the whole model")


def test_details_are_read_by_keys(report: Page) -> None:
    module(report, "body").focus()
    report.keyboard.press("ArrowDown")
    expect(module(report, "0")).to_be_focused()
    expect(details(report)).to_contain_text("body.0")
    report.keyboard.press("ArrowLeft")
    expect(module(report, "0")).to_have_attribute("aria-expanded", "false")
    report.keyboard.press("ArrowLeft")
    expect(module(report, "body")).to_be_focused()
    report.keyboard.press("End")
    expect(module(report, "head")).to_be_focused()
    expect(details(report)).to_contain_text("head")
    report.keyboard.press("Escape")
    expect(details(report)).to_contain_text("the whole model")


def test_modules_fold_and_are_found_where_they_are_folded(report: Page) -> None:
    report.get_by_role("button", name="fold all", exact=True).click()
    expect(report.get_by_role("treeitem")).to_have_count(2)
    search = report.get_by_label("Search modules")
    search.fill("fc")
    expect(module(report, "body")).to_contain_text("3 found")
    search.press("Enter")
    expect(details(report)).to_contain_text("body.0.fc")
    expect(report.get_by_text("1 of 3")).to_be_visible()
    search.press("Enter")
    expect(details(report)).to_contain_text("body.1.fc")
    assert "module=body.1.fc" in report.url
    report.get_by_role("button", name="unfold all").click()
    expect(report.get_by_role("treeitem")).to_have_count(11)
    module(report, "body").click(position={"x": 40, "y": 10})
    expect(report.get_by_role("treeitem")).to_have_count(2)


def test_colours_have_a_legend_and_figures(report: Page) -> None:
    legend = report.get_by_role("group", name="Legend")
    expect(legend).to_contain_text("forward and backward of a pass")
    expect(module(report, "head")).to_contain_text("33.0ms")
    report.get_by_role("button", name="parameters").click()
    expect(legend).to_contain_text("share of the whole")
    expect(module(report, "head")).to_contain_text("4.2\u202fk")
    assert "tint=parameters" in report.url
    expect(report.get_by_role("button", name="memory")).to_be_disabled()
    costliest = report.get_by_role("region", name="Costliest")
    costliest.get_by_role("button", name="head").click()
    expect(details(report)).to_contain_text("head")


def test_the_drawing_is_saved_as_it_is_seen(report: Page, tmp_path: Path) -> None:
    with report.expect_download() as download:
        report.get_by_role("button", name="SVG").click()
    svg = download.value.path().read_text()
    assert svg.startswith("<svg")
    assert ">head<" in svg
    assert "&lt;img src=x" in svg
    assert "<img" not in svg
    assert "var(--" not in svg
    saved = tmp_path / "saved.svg"
    saved.write_text(svg)
    report.goto(saved.as_uri())
    assert report.evaluate("document.documentElement.nodeName") == "svg"
    assert report.evaluate("document.querySelectorAll('text').length") > 10


def test_names_of_modules_are_text(report: Page) -> None:
    assert report.evaluate("window.hit") is None
    assert report.evaluate("document.querySelectorAll('main img').length") == 0


def test_only_the_tree_is_known_and_it_says_so(tmp_path: Path, page: Page, shoot) -> None:
    page.goto(made.report(tmp_path, model=made.graph(timed=False, recorded=False)) + TAB)
    expect(page.get_by_role("note").filter(has_text="Only the module tree is known")).to_contain_text("KeyError")
    expect(module(page, "head")).to_be_visible()
    expect(page.get_by_role("button", name="time")).to_be_disabled()
    shoot(page, "model-tree")


def test_times_change_while_one_looks(fleet: Fleet, page: Page) -> None:
    fleet.watch(made.graph(timed=False))
    page.goto(fleet.url + TAB)
    expect(module(page, "head")).to_contain_text("4.2\u202fk")
    fleet.send(0, module_times(made.graph(timed=False), passes=8))
    expect(module(page, "head")).to_contain_text("33.0ms")
    expect(page.get_by_role("region", name="Model")).to_contain_text("mean of 8 passes on rank 0, host clock")


def test_a_drawing_of_the_users_own_comes_first(tmp_path: Path, page: Page) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><text x="4" y="20">mine</text></svg>'
    page.goto(made.report(tmp_path, model=made.graph(), svg=svg) + TAB)
    expect(page.get_by_role("img", name="Model Net")).to_be_visible()
    page.get_by_role("button", name="graph").click()
    expect(module(page, "head")).to_be_visible()
    page.get_by_role("button", name="drawing").click()
    expect(page.get_by_role("img", name="Model Net")).to_be_visible()


def test_a_huge_model_is_folded_and_stays_usable(tmp_path: Path, page: Page, shoot) -> None:
    page.goto(made.report(tmp_path, model=made.graph(stages=3333)) + TAB)
    expect(page.get_by_role("treeitem")).to_have_count(2)
    module(page, "body").click()
    expect(page.get_by_role("treeitem")).to_have_count(122)
    page.get_by_role("button", name="more after").click()
    expect(page.get_by_role("button", name="120 before")).to_be_visible()
    search = page.get_by_label("Search modules")
    search.fill("body.3332.act")
    search.press("Enter")
    expect(details(page)).to_contain_text("body.3332.act")
    page.get_by_role("button", name="unfold all").click()
    expect(page.get_by_role("treeitem").nth(250)).to_be_attached()
    assert page.get_by_role("treeitem").count() <= 700
    shoot(page, "model-huge")


@pytest.mark.parametrize(("width", "scheme"), made.VIEWS)
def test_everyone_can_use_it_at_any_width(tmp_path: Path, page: Page, scheme: str, width: int, shoot) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(made.report(tmp_path, model=made.graph()) + TAB)
    expect(module(page, "head")).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert violations(page) == []
    shoot(page, f"model-{width}-{scheme}")


def test_without_a_model_it_says_what_to_do(tmp_path: Path, page: Page) -> None:
    page.goto(made.report(tmp_path) + TAB)
    expect(page.get_by_text("mon.watch(model)")).to_be_visible()
