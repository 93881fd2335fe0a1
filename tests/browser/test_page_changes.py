"""A page that stays open while everything under it changes: set late, restarted, resumed, named with malice."""

import re
import time
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.fleet import Fleet
from tests.conftest import Witness
from trackside.wire import messages

VALUES = [1.0, 0.8, 0.7, 0.6, 0.5]
SVG = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><circle cx='4' cy='4' r='3'/></svg>"


def plot(page: Page, name: str = "loss") -> Locator:
    return page.get_by_role("article", name=name, exact=True).get_by_role("img")


def tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Parts").get_by_role("link", name=re.compile(name, re.I)).click()


def rows(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name=name).get_by_role("row")


def test_lesson_what_is_set_after_the_page_was_loaded_is_shown(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": VALUES})
    page.goto(fleet.url)
    main = page.get_by_role("main")
    tab(page, "config")
    expect(main).not_to_contain_text("batch_size")
    fleet.send(0, messages.SetMetadata(text='{"batch_size": 4711}'))
    expect(main).to_contain_text("4711")
    fleet.send(1, messages.SetMetadata(text='{"batch_size": 4712}'))
    expect(main).to_contain_text("4712")
    expect(main).not_to_contain_text("4711")
    tab(page, "model")
    expect(main.get_by_role("img", name=re.compile("late net"))).to_have_count(0)
    fleet.send(0, messages.SetGraph(svg=SVG, label="late net", hash="abcd"))
    expect(main.get_by_role("img", name=re.compile("late net"))).to_be_visible()


def test_lesson_a_reconnect_doubles_no_row(fleet: Fleet, page: Page, witness: Witness) -> None:
    fleet.log({"loss": VALUES})
    for rank in (0, 1):
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=4, seconds=1.0))
    fleet.send(1, messages.UserEvent(time=time.time(), title="resumed", text="from checkpoint 900", level="warn"))
    page.goto(fleet.url)
    expect(rows(page, "Standings")).to_have_count(3)
    fleet.controller.kill()
    expect(page.get_by_role("status", name="State: disconnected")).to_be_visible()
    fleet.controller.resume()
    fleet.greet_again()
    expect(page.get_by_role("status", name="State: running")).to_be_visible()
    fleet.log({"loss": [0.4]}, step=5)
    expect(plot(page)).to_have_attribute("aria-label", re.compile("6 points"))
    expect(rows(page, "Standings")).to_have_count(3)
    tab(page, "epochs")
    expect(rows(page, "Epochs")).to_have_count(2)
    tab(page, "events")
    expect(page.get_by_role("listitem").filter(has_text="from checkpoint 900")).to_have_count(1)
    tab(page, "ranks")
    expect(page.get_by_role("main").get_by_role("link", name=re.compile("rank1"))).to_have_count(1)
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_b31_an_elastic_restart_stays_on_the_page_without_ghosts(tmp_path: Path, page: Page) -> None:
    fleet = Fleet(tmp_path, hosts=("node-a", "node-b", "node-b"))
    try:
        fleet.log({"loss": VALUES})
        page.goto(fleet.url)
        expect(rows(page, "Standings")).to_have_count(4)
        fleet.tell(messages.WorkerExited(rank=2, generation=0, time=time.time(), signal="SIGKILL"))
        expect(page.get_by_role("group", name="Ranks alive")).to_contain_text("2 / 3")
        fleet.start_again(("node-a", "node-b"), generation=1)
        expect(page.get_by_role("group", name="Ranks alive")).to_contain_text("2 / 2")
        expect(rows(page, "Standings")).to_have_count(3)
        expect(page.get_by_role("table", name="Standings")).not_to_contain_text("failed")
        fleet.log({"loss": [0.5, 0.4, 0.3]}, step=4)
        expect(plot(page)).to_have_attribute("aria-label", re.compile("7 points"))
        page.goto("about:blank")  # a page that still listens would see the controller go
    finally:
        fleet.close()


def test_lesson_labels_and_hosts_are_text_and_never_markup(tmp_path: Path, page: Page) -> None:
    evil = "<img src=x onerror=window.hit=1>"
    fleet = Fleet(tmp_path, hosts=(evil, "node-b"))
    try:
        fleet.log({"loss": VALUES})
        fleet.send(0, messages.SetGraph(svg=SVG, label=evil, hash=evil))
        fleet.send(1, messages.SetGraph(svg=SVG, label=evil, hash=f"other {evil}"))
        fleet.send(0, messages.SetHardware(cpu=evil, gpu=evil))
        fleet.totals = {rank: {"step": 4, "phase": evil, "phases": {evil: 1.0}} for rank in (0, 1)}
        page.goto(fleet.url)
        expect(page.get_by_role("table", name="Standings")).to_contain_text(evil)
        for name in ("ranks", "resources", "model", "config", "events", "overview"):
            tab(page, name)
            expect(page.get_by_role("main")).not_to_be_empty()
            assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0, name
        tab(page, "events")
        expect(page.get_by_role("main")).to_contain_text("trains another model")
        assert page.evaluate("window.hit") is None
        page.goto("about:blank")
    finally:
        fleet.close()
