"""One chart as large as the window, and what one takes away from it: a table, a drawing, a picture."""

import csv
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from playwright.sync_api import Locator, Page, expect

from tests.browser import made
from tests.browser.fleet import Fleet
from tests.browser.test_page_charts import FALLING, chart, has_points

NAME = "eval/<b>средняя ошибка</b> & 損失"


def saved(page: Page, dialog: Locator, kind: str) -> Path:
    with page.expect_download() as download:
        dialog.get_by_role("button", name=f"as {kind}").click()
    assert download.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(download.value.path())


def test_a_chart_is_enlarged_by_keys_and_escape_goes_back(fleet: Fleet, page: Page, shoot) -> None:
    fleet.log({"loss": FALLING, "lr": FALLING})
    page.goto(fleet.url)
    has_points(page, "loss", "40")
    chart(page, "loss").get_by_role("img").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="loss")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("img")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(dialog.get_by_role("status")).to_contain_text("step 39")
    expect(page).to_have_url(re.compile("chart=loss"))
    room, box = page.viewport_size, dialog.get_by_role("img").bounding_box()
    assert room
    assert box
    assert box["height"] > room["height"] * 0.6
    assert box["width"] > room["width"] * 0.8
    shoot(page, "enlarged")

    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("dialog", name="loss")).to_be_visible()
    other.close()

    fleet.log({"loss": [9.0] * 20}, step=40)
    expect(dialog.get_by_role("img")).to_have_attribute("aria-label", re.compile(": 60 points"))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page).not_to_have_url(re.compile("chart="))
    expect(chart(page, "loss").get_by_role("img")).to_be_focused()
    page.go_back()
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Back to all charts").click()
    expect(dialog).to_have_count(0)
    chart(page, "lr").get_by_role("button", name="Enlarge lr").click()
    expect(page.get_by_role("dialog", name="lr")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_chart_is_saved_as_table_drawing_and_picture(fleet: Fleet, page: Page) -> None:
    fleet.log({NAME: [2.0, 1.0, float("nan"), 0.5]})
    page.goto(fleet.url)
    chart(page, NAME).get_by_role("button", name="Ranks of").click()
    chart(page, NAME).get_by_role("button", name="Enlarge").click()
    dialog = page.get_by_role("dialog", name=NAME)
    expect(dialog).to_contain_text("rank 1")
    rows = list(csv.reader(saved(page, dialog, "CSV").read_text("utf-8").splitlines()))
    assert rows[0] == ["step", "mean", "min", "max", "count", "rank 0", "rank 1"]
    assert rows[1] == ["0", "2.5", "2", "3", "2", "2", "3"]
    assert rows[3][5:] == ["NaN", "NaN"]
    assert len(rows) == 5

    drawing = ET.fromstring(saved(page, dialog, "SVG").read_text("utf-8"))
    words = " ".join(drawing.itertext())
    assert NAME in words
    assert "rank 1" in words
    assert "✕" in words
    assert len(drawing.findall(".//{*}path")) > 5
    assert saved(page, dialog, "PNG").read_bytes().startswith(b"\x89PNG")
    assert page.evaluate("window.hit") is None


def test_a_report_saves_its_charts_without_a_server_and_says_what_it_does_not_hold(tmp_path: Path, page: Page) -> None:
    address = made.report(tmp_path)
    page.goto(f"{address}#chart=loss&path=root")
    dialog = page.get_by_role("dialog", name="loss")
    expect(dialog.get_by_role("img")).to_be_visible()
    assert ET.fromstring(saved(page, dialog, "SVG").read_text("utf-8")).findall(".//{*}path")
    assert saved(page, dialog, "PNG").read_bytes().startswith(b"\x89PNG")
    page.keyboard.press("Escape")
    page.get_by_role("table", name="Standings").get_by_role("link", name="rank1").click()
    expect(chart(page, "loss")).to_contain_text("only the curves of the whole job are kept here")
    expect(chart(page, "loss")).to_contain_text("trackside view")
