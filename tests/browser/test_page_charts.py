"""Charts as one looks at them: scales, smoothing, groups, the crosshair, the address that says it all."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.fleet import Fleet

FALLING = [2.0 / (1 + i / 10) for i in range(40)]


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True)


def has_points(page: Page, name: str, count: str) -> None:
    expect(chart(page, name).get_by_role("img")).to_have_attribute("aria-label", re.compile(rf": {count} points"))


def point_at(page: Page, plot: Locator, ratio: float, said: Locator) -> None:
    """Moves the pointer over a plot until somebody else's chart says where it is."""
    box = plot.bounding_box()
    assert box
    for attempt in range(10):  # a layout that settles late swallows a lone movement
        x = box["x"] + box["width"] * (ratio - 0.001 * attempt)
        page.mouse.move(x, box["y"] + box["height"] / 2, steps=2)
        if "step " in said.inner_text():
            return
        page.wait_for_timeout(200)
    raise AssertionError(said.inner_text())


def test_how_one_looks_is_in_the_address_and_back_undoes_it(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING, "a/b,c&d": [-1.0, -2.0, *FALLING[2:]]})
    page.goto(fleet.url)
    odd = chart(page, "a/b,c&d")
    odd.get_by_role("button", name="Log scale").click()
    expect(odd).to_contain_text("2 not above 0, not drawn")
    chart(page, "loss").get_by_role("button", name="Ranks of loss").click()
    page.get_by_label("Smoothing").fill("0.9")
    expect(chart(page, "loss")).to_contain_text("loss (mean) of 2 ranks, smoothed")
    plot = chart(page, "loss").get_by_role("img")
    point_at(page, plot, 0.4, odd)
    page.mouse.down()
    box = plot.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    has_points(page, "loss", r"(8|9|1\d|20)")

    other = page.context.new_page()
    other.goto(page.url)
    has_points(other, "loss", r"(8|9|1\d|20)")
    expect(chart(other, "loss").get_by_role("button", name=re.compile("^rank 1"))).to_be_visible()
    expect(chart(other, "loss")).to_contain_text("smoothed")
    expect(chart(other, "a/b,c&d").get_by_role("button", name="Log scale")).to_have_attribute("aria-pressed", "true")
    other.close()

    page.go_back()
    has_points(page, "loss", "40")
    expect(chart(page, "loss")).to_contain_text("smoothed")
    page.go_forward()
    has_points(page, "loss", r"(8|9|1\d|20)")
    page.get_by_role("button", name="show all of x").click()
    has_points(page, "loss", "40")


def test_the_crosshair_reads_out_every_chart_and_nothing_where_nothing_is(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING, "lr": FALLING})
    fleet.log({"val/acc": [0.5, 0.6, 0.7, 0.8]}, step=36)
    page.goto(fleet.url)
    for name, count in (("loss", "40"), ("lr", "40"), ("val/acc", "4")):
        has_points(page, name, count)
    point_at(page, chart(page, "loss").get_by_role("img"), 0.3, chart(page, "lr"))
    said = chart(page, "lr").get_by_role("status").inner_text()
    step = int(re.search(r"step (\d+)", said)[1])
    assert f"{FALLING[step] + 0.5:.4f}" in said
    expect(chart(page, "lr").get_by_role("button", name=re.compile("min–max"))).to_contain_text(
        f"{FALLING[step]:.4f}–{FALLING[step] + 1:.4f}"
    )
    expect(chart(page, "val/acc").get_by_role("status")).to_have_text("–")

    fleet.log({"loss": [9.0] * 20}, step=40)  # what streams in takes neither the place nor what is read out
    has_points(page, "loss", "60")
    expect(chart(page, "lr").get_by_role("status")).to_contain_text(f"step {step}")


def test_a_mean_is_never_of_more_ranks_than_there_are(fleet: Fleet, page: Page) -> None:
    """An entry of a long series stands for many steps and counts all of their values."""
    fleet.log({"loss": [1.0 + i % 7 for i in range(5000)]})
    page.goto(fleet.url)
    expect(chart(page, "loss").get_by_role("button", name=re.compile(r"^loss \(mean\) of 2 ranks$"))).to_be_visible()
    page.get_by_role("table", name="Standings").get_by_role("link", name="rank1").click()
    expect(chart(page, "loss").get_by_role("button", name=re.compile(r"^loss \(mean\) of rank 1$"))).to_be_visible()


def test_groups_fold_and_remember_it(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": FALLING, "train/acc": FALLING, "train/lr": FALLING})
    page.goto(fleet.url)
    fold = page.get_by_role("button", name=re.compile("^train"))
    fold.click()
    expect(chart(page, "train/acc")).to_have_count(0)
    page.reload()
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(chart(page, "loss").get_by_role("img")).to_be_visible()
    expect(chart(page, "train/acc")).to_have_count(0)
    fold.click()
    expect(chart(page, "train/acc").get_by_role("img")).to_be_visible()


def test_few_charts_fill_the_window_and_many_are_side_by_side(fleet: Fleet, page: Page) -> None:
    fleet.log(dict.fromkeys(("loss", "lr", *(f"{group}/{i}" for group in "abcd" for i in "xy")), FALLING))
    page.set_viewport_size({"width": 3840, "height": 2160})
    page.goto(fleet.url)
    has_points(page, "d/y", "40")
    tops = {name: chart(page, name).bounding_box() for name in ("loss", "a/x", "d/y")}
    assert all(tops.values())
    assert tops["loss"]["y"] == tops["a/x"]["y"], "groups stand beside each other"
    assert tops["d/y"]["y"] + tops["d/y"]["height"] <= 2160, "all are in view"
    narrow = tops["loss"]["width"]
    page.get_by_label("Filter metrics").fill("lr")
    expect(page.get_by_role("article")).to_have_count(1)
    alone = chart(page, "lr").bounding_box()
    assert alone
    assert alone["width"] > 2 * narrow
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
