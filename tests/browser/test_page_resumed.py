"""A run that goes on where its processes had been before: what is trained again is never shown as if it stood."""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.fleet import Fleet
from trackside.wire import messages

FALLING = [2.0 / (1 + step / 20) for step in range(100)]


def plot(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True).get_by_role("img")


def report_epoch(fleet: Fleet, number: int, loss: float, batches: int = 25) -> None:
    for rank in range(len(fleet.ranks)):
        fleet.send(rank, messages.EpochReport(epoch=number, metrics={"loss": loss}, batches=batches, seconds=1.0))


def row(page: Page, epoch: int) -> Locator:
    return page.get_by_role("table", name="Epochs").get_by_role("row", name=re.compile(rf"^(\D*) ?{epoch} "))


def test_what_a_resumed_run_trains_again_is_not_shown_as_the_present(tmp_path: Path, page: Page) -> None:
    """On a page that stays open, with fewer ranks than before, and a metric that the new ones have not told yet."""
    fleet = Fleet(tmp_path, hosts=("node-a", "node-b"))
    try:
        fleet.tell(messages.SetPlan(epochs=9))
        fleet.log({"loss": FALLING})
        fleet.log({"val": FALLING[80:]}, step=80)
        for number, loss in enumerate([0.9, 0.8, 0.7, 0.1]):
            report_epoch(fleet, number, loss)
        page.goto(fleet.url)
        expect(plot(page, "val")).to_have_attribute("aria-label", re.compile("^val: 20 points"))
        fleet.start_again(("node-a",), generation=1)
        fleet.log({"loss": [0.55, 0.54, 0.53]}, step=90)
        expect(plot(page, "loss")).to_have_attribute("aria-label", re.compile("^loss: 93 points.*, resumed at step 90"))
        expect(plot(page, "val")).to_have_attribute("aria-label", re.compile("^val: 10 points.*, resumed at step 90"))
        fleet.log({"val": [0.5]}, step=92)
        expect(plot(page, "val")).to_have_attribute("aria-label", re.compile("^val: 11 points"))
        page.reload()
        expect(plot(page, "loss")).to_have_attribute("aria-label", re.compile("^loss: 93 points.*, resumed at step 90"))
        expect(page.get_by_role("group", name="Progress")).to_contain_text("step 92")
        page.get_by_role("link", name=re.compile("^Events")).click()
        expect(page.get_by_role("listitem").filter(has_text="it goes on at step 90")).to_contain_text(
            "steps 90 to 99 are trained again"
        )
        page.goto("about:blank")
    finally:
        fleet.close()


def test_epochs_say_which_are_trained_again_and_which_were_cut_short(tmp_path: Path, page: Page) -> None:
    fleet = Fleet(tmp_path, hosts=("node-a",))
    try:
        fleet.tell(messages.SetPlan(epochs=9))
        fleet.totals = {0: {"epoch": 3}}
        fleet.log({"loss": FALLING})
        for number, loss in enumerate([0.9, 0.8, 0.1]):
            report_epoch(fleet, number, loss)
        report_epoch(fleet, 3, 0.05, batches=3)
        fleet.send(0, messages.Goodbye(time=0.0, clean=False))
        page.goto(fleet.url + "#tab=epochs")
        expect(row(page, 4)).to_contain_text("incomplete")
        expect(row(page, 3)).to_contain_text("★")
        fleet.start_again(("node-a",), generation=1)
        fleet.totals = {0: {"epoch": 2}}
        fleet.log({"loss": [0.5]}, step=75)
        for number in (3, 4):
            expect(row(page, number)).to_contain_text("before the resume")
        expect(row(page, 3)).not_to_contain_text("★")
        expect(row(page, 2)).to_contain_text("★")
        expect(row(page, 2)).not_to_contain_text("before")
        report_epoch(fleet, 2, 0.7)
        expect(row(page, 3)).to_contain_text("★")
        expect(row(page, 3)).not_to_contain_text("before")
        page.get_by_role("link", name=re.compile("^Ranks")).click()
        cells = page.get_by_role("table", name="Ranks").get_by_role("row").nth(1)
        expect(cells).to_contain_text("75")
        headings = page.get_by_role("table", name="Ranks").get_by_role("columnheader").all_inner_texts()
        at = next(i for i, text in enumerate(headings) if text.strip().startswith("epoch"))
        expect(cells.get_by_role("cell").nth(at)).to_have_text("3")
        expect(page.get_by_role("group", name="Progress")).to_contain_text("epoch 3")
        page.goto("about:blank")
    finally:
        fleet.close()
