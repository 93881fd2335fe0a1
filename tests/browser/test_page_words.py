"""What the page says in words: warnings, events, configuration, the browser tab; and that keys and eyes reach all of it."""

import json
import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser import made
from tests.browser.axe import violations
from tests.browser.fleet import Fleet, wait_for
from tests.conftest import Witness
from trackside.wire import messages

VALUES = [1.0, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.28]
ICON = "document.querySelector('link[rel=icon]').href"
CLIPBOARD = "navigator.clipboard.readText()"
UNREACHED = """() => [...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')]
    .filter((element) => element.checkVisibility({visibilityProperty: true, opacityProperty: false}) && !element.disabled)
    .filter((element) => !element.dataset.reached).map((element) => element.outerHTML.slice(0, 200))"""
REACHED = """() => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const first = element.dataset.reached === undefined;
    element.dataset.reached = '1';
    const {outlineStyle, outlineWidth} = getComputedStyle(element);
    const strokes = element.role === 'treeitem' ? [...element.querySelectorAll('rect')].map((one) => getComputedStyle(one)) : [];
    const isSeen = element.className === 'skip' || (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2) ||
        strokes.some(({stroke, strokeWidth}) => stroke !== 'none' && parseFloat(strokeWidth) >= 2);
    return {first, isSeen, what: element.outerHTML.slice(0, 200)};
}"""


def warn(fleet: Fleet, rank: int, title: str, level: str = "warn") -> None:
    fleet.send(rank, messages.UserEvent(time=time.time(), title=title, text=f"said by {rank}", level=level))


def kill(fleet: Fleet, rank: int) -> None:
    fleet.silence(rank)
    fleet.tell(messages.WorkerExited(rank=rank, generation=0, time=time.time(), signal="SIGKILL"))


def test_the_newest_warning_can_be_dismissed_and_leads_to_all(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": VALUES})
    page.goto(fleet.url)
    strip = page.get_by_role("complementary", name="Newest warning")
    expect(page.get_by_role("article", name="loss", exact=True)).to_be_visible()
    expect(strip).to_have_count(0)
    kill(fleet, 1)
    expect(strip).to_contain_text(re.compile(r"\d\d:\d\d:\d\d rank 1 on node-b was killed by SIGKILL"))
    assert violations(page) == []
    strip.get_by_role("button", name="Dismiss").click()
    expect(strip).to_have_count(0)
    kill(fleet, 0)
    expect(strip).to_contain_text("rank 0")
    strip.get_by_role("button", name=re.compile("SIGKILL")).click()
    expect(page.get_by_role("region", name="Events").get_by_role("listitem").filter(has_text="SIGKILL")).to_have_count(
        2
    )


def test_events_are_filtered_and_the_address_says_how(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": VALUES})
    fleet.log({"loss": [float("nan")]}, step=10, ranks=(1,))
    warn(fleet, 0, "checkpoint", "info")
    warn(fleet, 1, "slow disk", "critical")
    page.goto(fleet.url + "#path=root&tab=events")
    rows = page.get_by_role("region", name="Events").get_by_role("listitem")
    expect(rows.filter(has_text="loss is NaN")).to_have_count(1)
    expect(rows.filter(has_text="checkpoint")).to_have_count(1)
    page.get_by_label("severity").select_option("critical")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="checkpoint")).to_have_count(0)
    page.get_by_label("severity").select_option("warn")
    page.get_by_label("class").select_option("non-finite")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("NaN at step 10")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("region", name="Events").get_by_role("listitem")).to_have_count(1)
    other.close()
    page.go_back()
    expect(page.get_by_label("class")).to_have_value("")
    page.get_by_label("severity").select_option("info")
    page.get_by_label("Search events").fill("rank 0")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("checkpoint")

    words = page.get_by_text("said by 0")
    words.select_text()
    warn(fleet, 0, "rank 0 again")
    expect(rows).to_have_count(2)
    assert "said by 0" in page.evaluate("getSelection().toString()"), "what is selected stays selected"


def test_the_configuration_is_searched_and_copied(fleet: Fleet, page: Page) -> None:
    config = {
        "optimizer": {"name": "sgd", "lr": 0.25},
        "layers": [{"width": 64}, {"width": 4711}],
        "note": "<b>plain</b>",
    }
    fleet.log({"loss": VALUES})
    fleet.send(0, messages.SetMetadata(text=json.dumps(config)))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(fleet.url + "#path=root&tab=config")
    metadata = page.get_by_role("region", name="Metadata")
    expect(metadata.get_by_role("listitem").filter(has_text="sgd")).to_be_visible()
    metadata.get_by_role("button", name="optimizer").click()
    expect(metadata.get_by_text("sgd")).to_have_count(0)
    metadata.get_by_label("Search Metadata").fill("4711")
    expect(metadata.get_by_text("4711", exact=True)).to_be_visible()
    expect(metadata.get_by_text("64", exact=True)).to_have_count(0)
    metadata.get_by_role("button", name="copy").click()
    expect(metadata.get_by_role("button", name="copied")).to_be_visible()
    assert json.loads(page.evaluate(CLIPBOARD)) == config
    environment = page.get_by_role("region", name="Environment")
    expect(environment).to_contain_text("node-b")
    expect(environment).not_to_contain_text("null")


def test_the_browser_tab_says_state_and_progress(fleet: Fleet, page: Page, witness: Witness) -> None:
    fleet.send(0, messages.SetPlan(steps=40, name="far away"))
    fleet.totals = {rank: {"step": 10} for rank in (0, 1)}
    fleet.log({"loss": VALUES})
    page.goto(fleet.url)
    expect(page).to_have_title("25% far away · Trackside")
    icons: set[str] = set()

    def has_another_icon() -> bool:
        icon = page.evaluate(ICON)
        is_other = icon.startswith("data:image/png") and icon not in icons
        icons.add(icon)
        return is_other

    wait_for(has_another_icon, "an icon")
    fleet.totals = {rank: {"step": 30} for rank in (0, 1)}
    expect(page).to_have_title("75% far away · Trackside")
    wait_for(has_another_icon, "another icon")
    expect(page.get_by_role("progressbar", name="Run")).to_have_attribute("aria-valuenow", "75")
    fleet.controller.kill()
    expect(page).to_have_title("75% disconnected · far away · Trackside")
    expect(page.get_by_role("note")).to_contain_text(re.compile(r"What is shown is \d+(\.\d)?m?s old"))
    assert violations(page) == []
    wait_for(has_another_icon, "another icon")
    fleet.controller.resume()
    fleet.greet_again()
    expect(page).to_have_title("75% far away · Trackside")
    fleet.finish()
    expect(page).to_have_title("finished · far away · Trackside")
    wait_for(has_another_icon, "another icon")
    witness.errors.clear()  # refused connections are logged by the browser itself


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Ranks that have told something for every tab."""
    fleet = Fleet(tmp_path_factory.mktemp("everything"))
    fleet.log({"loss": VALUES, "train/acc": VALUES})
    fleet.send(0, messages.SetMetadata(text='{"config": {"lr": 0.1}}'))
    warn(fleet, 1, "note")
    for rank in (0, 1):
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=4, seconds=1.0))
        host = messages.HostSample(cpu=0.5, memory_used=2**30, memory_total=2**33)
        fleet.send(rank, messages.ResourceSample(time=time.time(), interval_seconds=2, host=host))
    fleet.watch(made.graph(timed=False))
    yield fleet
    fleet.close()


@pytest.mark.parametrize("tab", ["overview", "ranks", "resources", "model", "epochs", "config", "events"])
def test_every_control_is_reached_by_the_tab_key_and_seen(everything: Fleet, page: Page, tab: str) -> None:
    page.goto(f"{everything.url}#path=root/node-b&tab={tab}")
    expect(page.get_by_role("navigation", name="Parts").locator("[aria-current=page]")).to_have_text(
        re.compile(tab, re.I)
    )
    there = {
        "overview": page.get_by_role("table", name="Standings"),
        "ranks": page.get_by_role("table", name="Ranks"),
        "resources": page.get_by_role("article", name="node-b"),
        "model": page.get_by_role("tree", name="Modules in execution order"),
        "epochs": page.get_by_role("main").get_by_role("table").first,
        "config": page.get_by_role("region", name="Environment"),
        "events": page.get_by_label("Search events"),
    }
    expect(there[tab]).to_be_visible()
    if tab == "overview":
        expect(page.get_by_role("article")).to_have_count(2)
    for _ in range(120):
        page.keyboard.press("Tab")
        reached = page.evaluate(REACHED)
        if reached is None or not reached["first"]:
            break
        assert reached["isSeen"], reached["what"]
    assert page.evaluate(UNREACHED) == []


@pytest.mark.long
def test_a_run_that_stands_and_a_controller_that_is_silent_are_said(fleet: Fleet, page: Page) -> None:
    """A promise of seconds: nobody claims that the time left runs down while nothing goes on."""
    fleet.send(0, messages.SetPlan(steps=1000))
    page.goto(fleet.url)
    for step in range(0, 50, 10):
        fleet.totals = {rank: {"step": step} for rank in (0, 1)}
        page.wait_for_timeout(1000)
    left = page.get_by_role("group", name="Time left")
    expect(left).not_to_contain_text("unknown")
    expect(page.get_by_role("group", name="Progress")).to_contain_text("no step for", timeout=25_000)
    expect(left).to_contain_text("unknown", timeout=25_000)
    fleet.totals = {rank: {"step": 60} for rank in (0, 1)}
    expect(page.get_by_role("group", name="Progress")).not_to_contain_text("no step for")
    fleet.controller.process.send_signal(19)
    try:
        expect(page.get_by_text(re.compile(r"^quiet"))).to_contain_text(re.compile(r"\d\.\ds"))
    finally:
        fleet.controller.process.send_signal(18)
    expect(page.get_by_text(re.compile(r"^live"))).to_be_visible()
