"""A page that is open while ranks log: what it shows, and that it follows."""

import json
import re
import time

from playwright.sync_api import Page, expect

from tests.browser.fleet import Fleet, wait_for
from trackside.wire import messages

FALLING = [2.0 / (1 + i / 10) for i in range(40)]


def chart(page: Page, name: str):
    return page.get_by_role("article", name=name, exact=True)


def test_it_opens_with_data_and_follows(fleet: Fleet, page: Page, shoot) -> None:
    fleet.send(0, messages.SetPlan(epochs=3, steps=100, name="follow me"))
    fleet.log({"loss": FALLING, "train/acc": [0.1] * 40})
    page.goto(fleet.url)
    expect(page.get_by_role("status", name="State: running")).to_be_visible()
    expect(page.get_by_role("group", name="Ranks alive")).to_contain_text("2 / 2")
    expect(page.get_by_role("group", name="loss")).to_contain_text("falling")
    expect(page.get_by_role("heading", level=1)).to_have_text("follow me")
    expect(chart(page, "loss").get_by_role("img")).to_have_attribute("aria-label", re.compile("loss: 40 points"))
    expect(chart(page, "train/acc")).to_contain_text("(mean) of 2 ranks")
    shoot(page, "running")

    fleet.log({"loss": [7.25]}, step=40)
    expect(chart(page, "loss").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(r"41 points, latest 7\.7500")
    )
    expect(page.get_by_role("group", name="loss")).to_contain_text("7.7500")
    expect(page).to_have_title(re.compile("follow me · Trackside$"))


def test_a_metric_that_appears_later_gets_its_chart(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING})
    page.goto(fleet.url)
    expect(chart(page, "loss").get_by_role("img")).to_be_visible()
    fleet.log({"val/acc": [0.5, 0.6]}, step=40, ranks=(0,))
    expect(chart(page, "val/acc").get_by_role("img")).to_have_attribute("aria-label", re.compile("2 points"))
    expect(page.get_by_role("button", name=re.compile("^val"))).to_be_visible()


def test_what_is_not_finite_is_marked(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": [1.0, float("nan"), 3.0, float("inf"), 2.0]})
    page.goto(fleet.url)
    expect(chart(page, "loss")).to_contain_text("not finite")
    expect(chart(page, "loss").get_by_role("img")).to_have_attribute("aria-label", re.compile("not finite"))


def test_one_descends_and_back_goes_up(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING})
    page.goto(fleet.url)
    page.get_by_role("table", name="Standings").get_by_role("link", name="rank1").click()
    trail = page.get_by_role("navigation", name="Path")
    expect(trail).to_contain_text(re.compile("root.*node-b.*rank1"))
    expect(page).to_have_url(re.compile("#path=root/node-b/rank1$"))
    expect(chart(page, "loss")).not_to_contain_text("(mean) of 2 ranks")
    expect(chart(page, "loss").get_by_role("img")).to_have_attribute("aria-label", re.compile("40 points"))
    page.go_back()
    expect(chart(page, "loss")).to_contain_text("(mean) of 2 ranks")
    page.go_forward()
    trail.get_by_role("link", name="root").click()
    expect(trail.get_by_text("rank1")).to_have_count(0)


def test_a_link_shows_another_person_the_same(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING, "train/acc": FALLING, "lr": FALLING})
    page.goto(fleet.url)
    page.get_by_label("Filter metrics").fill("/^train|lr$/")
    page.get_by_label("x axis").select_option("relative")
    page.get_by_role("button", name="Pin lr").click()
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.get_by_role("region", name="pinned").get_by_role("article")).to_have_count(1)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("article")).to_have_count(2)
    expect(other.get_by_label("x axis")).to_have_value("relative")
    expect(chart(other, "lr").get_by_role("img")).to_be_visible()
    other.get_by_label("Filter metrics").fill("/(/")
    expect(other.get_by_label("Filter metrics")).to_have_attribute("aria-invalid", "true")


def test_zoom_is_shared_and_double_click_goes_back(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING, "lr": FALLING})
    page.goto(fleet.url)
    plot = chart(page, "loss").get_by_role("img")
    expect(plot).to_have_attribute("aria-label", re.compile("40 points"))
    box = plot.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    for attempt in range(10):  # a layout that settles late swallows a lone movement
        page.mouse.move(box["x"] + box["width"] * (0.41 - 0.001 * attempt), middle, steps=2)
        if "step " in chart(page, "lr").inner_text():
            break
        page.wait_for_timeout(200)
    expect(chart(page, "lr")).to_contain_text("step ")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()
    expect(chart(page, "lr").get_by_role("img")).to_have_attribute("aria-label", re.compile(r"lr: (8|9|1\d|20) points"))
    expect(page).to_have_url(re.compile("zoom="))
    plot.dblclick()
    expect(chart(page, "lr").get_by_role("img")).to_have_attribute("aria-label", re.compile("lr: 40 points"))
    expect(page).not_to_have_url(re.compile("zoom="))


def test_ranks_are_laid_over_and_one_is_shown_alone(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING})
    page.goto(fleet.url)
    loss = chart(page, "loss")
    loss.get_by_role("button", name="Ranks of loss").click()
    expect(loss.get_by_role("button", name=re.compile("^rank 1"))).to_contain_text(f"{FALLING[-1] + 1:.4f}")
    loss.get_by_role("button", name=re.compile("^rank 1")).click()
    expect(loss.get_by_role("button", name=re.compile("^rank 0"))).to_have_count(0)
    loss.get_by_role("button", name="show all").click()
    expect(loss.get_by_role("button", name=re.compile("^rank 0"))).to_be_visible()


def test_names_are_text_and_never_markup(fleet: Fleet, page: Page) -> None:
    evil = '<img src=x onerror="window.hit=1">'
    fleet.log({evil: [1.0, 2.0], "a\u202egnp.exe": [1.0], "=cmd()": [2.0], "x" * 300: [1.0]})
    fleet.send(0, messages.SetPlan(name=f"run {evil}\u202e"))
    fleet.send(0, messages.SetMetadata(text=json.dumps({evil: {"</script>": evil}})))
    fleet.send(0, messages.UserEvent(time=time.time(), title=evil, text=evil))
    page.goto(fleet.url)
    expect(chart(page, evil)).to_be_visible()
    expect(chart(page, "a\ufffdgnp.exe")).to_be_visible()
    for tab in ("Config", "Events", "Ranks", "Overview"):
        page.get_by_role("navigation", name="Parts").get_by_role("link", name=tab).click()
        expect(page.get_by_role("main")).to_be_visible()
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.querySelectorAll('main img, h1 img').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_epochs_are_listed_newest_first_and_saved_as_csv(fleet: Fleet, page: Page) -> None:
    for number, loss in ((0, 2.0), (1, 1.0)):
        for rank in (0, 1):
            report = messages.EpochReport(
                epoch=number, metrics={"loss": loss, "acc": number / 2}, batches=4, seconds=1.5
            )
            fleet.send(rank, report)
    page.goto(fleet.url + "#path=root&tab=epochs")
    rows = page.get_by_role("table", name="Epochs").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("★ 1.0000")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0].startswith("epoch,duration_s,loss,acc,cpu_pct")
    assert [line.split(",")[:3] for line in lines[1:]] == [["0", "1.5", "2"], ["1", "1.5", "1"]]


def test_an_event_leads_to_its_moment(fleet: Fleet, page: Page, shoot) -> None:
    fleet.log({"loss": FALLING})
    fleet.send(1, messages.UserEvent(time=time.time(), title="resumed", text="from checkpoint 900", level="warn"))
    page.goto(fleet.url + "#path=root&tab=events")
    event = page.get_by_role("listitem").filter(has_text="from checkpoint 900")
    expect(event).to_be_visible()
    shoot(page, "events")
    event.get_by_role("link").click()
    expect(chart(page, "loss").get_by_role("img")).to_be_visible()
    expect(page).to_have_url(re.compile("at="))
    expect(page).to_have_url(re.compile("node-b/rank1"))


def test_a_rank_that_was_killed_is_named_at_once(fleet: Fleet, page: Page, shoot) -> None:
    fleet.log({"loss": FALLING})
    page.goto(fleet.url)
    expect(page.get_by_role("group", name="Ranks alive")).to_contain_text("2 / 2")
    fleet.silence(1)
    fleet.tell(messages.WorkerExited(rank=1, generation=0, time=time.time(), signal="SIGKILL"))
    expect(page.get_by_role("table", name="Standings")).to_contain_text("failed")
    expect(page.get_by_role("complementary", name="Newest warning")).to_contain_text("SIGKILL")
    expect(page.get_by_role("group", name="Ranks alive")).to_contain_text("1 / 2")
    shoot(page, "rank-killed")


def test_many_tabs_share_one_connection(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING})
    tabs = [page, *(page.context.new_page() for _ in range(7))]
    for tab in tabs:
        tab.goto(fleet.url)
    for tab in tabs:
        expect(chart(tab, "loss")).to_contain_text("(mean) of 2 ranks")

    def clients() -> list[int]:
        return [value for name, value in fleet.read("healthz")["counters"].items() if "clients" in name]

    assert clients(), fleet.read("healthz")
    wait_for(lambda: max(clients()) <= 1, "one connection for all")
    fleet.log({"loss": [9.0]}, step=40)
    for tab in tabs[-2:]:
        tab.bring_to_front()
        expect(chart(tab, "loss").get_by_role("img")).to_have_attribute("aria-label", re.compile("41 points"))


def test_many_metrics_stay_usable(fleet: Fleet, page: Page) -> None:
    names = [f"layer{i // 20:02d}/weight_{i}" for i in range(500)]
    fleet.log({name: [1.0, 2.0, 3.0] for name in names}, ranks=(0,))
    wait_for(lambda: len(fleet.read("api/v1/metrics")) == 500, "500 metrics")
    page.goto(fleet.url)
    expect(page.get_by_role("article")).to_have_count(500)
    assert page.evaluate("document.querySelectorAll('main canvas').length") < 40
    page.get_by_label("Filter metrics").fill("weight_499")
    expect(page.get_by_role("article")).to_have_count(1)
    expect(chart(page, "layer24/weight_499").get_by_role("img")).to_be_visible()
