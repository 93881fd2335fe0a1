"""Every state of run, link and page is designed: waiting, disconnected, finished, failed, report; in any size, for anyone."""

import re
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import violations
from tests.browser.fleet import Fleet, wait_for
from tests.conftest import Witness
from trackside.wire import messages

TABS = ("overview", "ranks", "resources", "model", "epochs", "config", "events")
VALUES = [1.0, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.28]


def plot(page: Page, name: str = "loss"):
    return page.get_by_role("article", name=name, exact=True).get_by_role("img")


def has_points(count: int) -> re.Pattern[str]:
    return re.compile(rf": {count} points")


def test_waiting_says_what_to_do(tmp_path: Path, page: Page, shoot) -> None:
    fleet = Fleet(tmp_path, hosts=())
    try:
        page.goto(fleet.url)
        expect(page.get_by_role("status", name="State: waiting")).to_be_visible()
        expect(page.get_by_text("Waiting for the first rank.")).to_be_visible()
        expect(page.get_by_role("group", name="Time left")).to_contain_text("unknown")
        shoot(page, "waiting")
        page.goto("about:blank")  # a page that still listens would see the controller go
    finally:
        fleet.close()


def test_a_killed_controller_is_seen_and_its_restart_leaves_no_gap_and_no_double(
    fleet: Fleet, page: Page, witness: Witness, shoot
) -> None:
    fleet.log({"loss": VALUES})
    page.goto(fleet.url)
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    fleet.controller.kill()
    expect(page.get_by_role("status", name="State: disconnected")).to_be_visible()
    expect(page.get_by_text("Disconnected from the controller.")).to_be_visible()
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    shoot(page, "disconnected")
    fleet.log({"loss": [0.2, 0.1]}, step=10)
    fleet.controller.resume()
    fleet.greet_again()
    expect(page.get_by_role("status", name="State: running")).to_be_visible()
    expect(plot(page)).to_have_attribute("aria-label", has_points(12))
    expect(page.get_by_text("Disconnected from the controller.")).to_have_count(0)
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_b28_an_open_page_keeps_everything(fleet: Fleet, page: Page, witness: Witness, shoot) -> None:
    fleet.log({"loss": VALUES, "train/acc": VALUES})
    for rank in (0, 1):
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=4, seconds=1.0))
    page.goto(fleet.url)
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    fleet.finish()
    expect(page.get_by_role("status", name="State: finished")).to_be_visible()
    expect(page.get_by_text("The run finished.")).to_be_visible()
    assert fleet.controller.wait() == 0
    expect(page.get_by_text("run over · kept here")).to_be_visible()
    for tab in TABS:
        page.get_by_role("navigation", name="Parts").get_by_role("link", name=re.compile(tab, re.I)).click()
        expect(page.get_by_role("main")).not_to_be_empty()
    page.get_by_role("navigation", name="Parts").get_by_role("link", name="Overview").click()
    page.get_by_label("x axis").select_option("relative")
    expect(plot(page, "train/acc")).to_have_attribute("aria-label", has_points(10))
    page.get_by_label("x axis").select_option("step")
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    page.get_by_role("table", name="Standings").get_by_role("link", name="rank1").click()
    for axis in ("step", "time"):
        page.get_by_label("x axis").select_option(axis)
        expect(plot(page, "train/acc")).to_have_attribute("aria-label", re.compile(r": 10 points, latest 1\.28"))
    page.get_by_role("navigation", name="Path").get_by_role("link", name="node-b").click()
    expect(plot(page, "train/acc")).to_have_attribute("aria-label", re.compile(r": 10 points, latest 1\.28"))
    page.get_by_role("navigation", name="Path").get_by_role("link", name="root").click()
    expect(page.get_by_role("status", name="State: finished")).to_be_visible()
    shoot(page, "finished")
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_b50_d71_the_report_is_the_same_page_without_a_network(fleet: Fleet, page: Page, shoot) -> None:
    fleet.log({"loss": VALUES, "train/acc": VALUES})
    for rank in (0, 1):
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=4, seconds=1.0))
    fleet.finish()
    assert fleet.controller.wait() == 0
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((fleet.controller.folder / "report.html").as_uri())
    expect(page.get_by_role("status", name="State: finished")).to_be_visible()
    expect(page.get_by_text(re.compile("The run finished .* Everything shown is inside this file"))).to_be_visible()
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    for axis in ("relative", "time", "step"):
        page.get_by_label("x axis").select_option(axis)
        expect(plot(page, "train/acc")).to_have_attribute("aria-label", has_points(10))
    for tab in TABS:
        page.get_by_role("navigation", name="Parts").get_by_role("link", name=re.compile(tab, re.I)).click()
        expect(page.get_by_role("main")).not_to_be_empty()
    page.get_by_role("navigation", name="Parts").get_by_role("link", name="Overview").click()
    page.get_by_role("table", name="Standings").get_by_role("link", name="rank1").click()
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    page.get_by_role("navigation", name="Path").get_by_role("link", name="node-b").click()
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    shoot(page, "report")
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_failed_says_which_rank_and_why(fleet: Fleet, page: Page, witness: Witness, shoot) -> None:
    fleet.log({"loss": VALUES})
    page.goto(fleet.url)
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    for rank in (0, 1):
        fleet.silence(rank)
        fleet.tell(messages.WorkerExited(rank=rank, generation=0, time=time.time(), exit_code=3 - rank))
    fleet.end(1)
    expect(page.get_by_role("status", name="State: failed")).to_be_visible()
    expect(page.get_by_text("The run failed.")).to_be_visible()
    expect(page.get_by_role("note").filter(has_text="The run failed.")).to_contain_text(re.compile(r"Rank \d.*code \d"))
    shoot(page, "failed")
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_the_theme_follows_the_system_until_chosen(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": VALUES})
    background = "getComputedStyle(document.documentElement).backgroundColor"
    page.emulate_media(color_scheme="dark")
    page.goto(fleet.url)
    dark = page.evaluate(background)
    page.emulate_media(color_scheme="light")
    wait_for(lambda: page.evaluate(background) != dark, "the light theme")
    page.get_by_role("button", name=re.compile("^Theme: system")).click()
    wait_for(lambda: page.evaluate(background) == dark, "the dark theme")
    page.reload()
    expect(page.get_by_role("button", name=re.compile("^Theme: dark"))).to_be_visible()
    assert page.evaluate(background) == dark


def test_nothing_is_cut_at_any_width(fleet: Fleet, page: Page, shoot) -> None:
    fleet.log({"loss": VALUES, "train/acc": VALUES})
    for width in (375, 768, 1440, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        for tab in TABS:
            page.goto("about:blank")
            page.goto(f"{fleet.url}#path=root&tab={tab}")
            expect(page.get_by_role("main")).not_to_be_empty()
            fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert page.evaluate(fits), (width, tab)
        page.goto(f"{fleet.url}#path=root")
        expect(plot(page)).to_be_visible()
        shoot(page, f"width-{width}")


def test_everyone_can_use_every_tab(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": VALUES, "train/acc": VALUES})
    fleet.send(0, messages.SetMetadata(text='{"config": {"lr": 0.1}}'))
    fleet.send(0, messages.UserEvent(time=time.time(), title="note", text="something", level="critical"))
    for rank in (0, 1):
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=4, seconds=1.0))
        host = messages.HostSample(cpu=0.5, memory_used=2**30, memory_total=2**33)
        fleet.send(rank, messages.ResourceSample(time=time.time(), interval_seconds=2, host=host))
    page.goto(fleet.url)
    for tab in TABS:
        page.evaluate(f"location.hash = '#path=root&tab={tab}'")
        expect(page.get_by_role("navigation", name="Parts").locator("[aria-current=page]")).to_have_text(
            re.compile(tab, re.I)
        )
        expect(page.get_by_role("main")).not_to_be_empty()
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (tab, scheme)


def test_keys_alone_are_enough(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": VALUES})
    page.goto(fleet.url)
    plot(page).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("article", name="loss", exact=True)).to_contain_text("step 9")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("article", name="loss", exact=True)).to_contain_text("step 8")
    page.reload()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the charts")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_a_browser_without_shared_workers_has_the_same_page(browser: Browser, fleet: Fleet, witness: Witness) -> None:
    fleet.log({"loss": VALUES})
    context = browser.new_context()
    context.add_init_script("delete window.SharedWorker")
    context.on("page", witness.watch)
    page = context.new_page()
    page.goto(fleet.url)
    expect(plot(page)).to_have_attribute("aria-label", has_points(10))
    fleet.log({"loss": [0.1]}, step=10)
    expect(plot(page)).to_have_attribute("aria-label", has_points(11))
    context.close()
