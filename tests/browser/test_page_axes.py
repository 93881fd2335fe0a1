"""What stands along the axes, and that everything drawn can be read out."""

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.fleet import Fleet, wait_for
from tests.browser.test_page_charts import FALLING, chart, has_points

# Every text of every canvas since it was last wiped, in the order of drawing.
WITNESS = """
const texts = new Map();
const { fillText, clearRect, scale } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.scale = function (...by) { texts.set(this.canvas, []); return scale.apply(this, by); };
CanvasRenderingContext2D.prototype.clearRect = function (...box) { texts.set(this.canvas, []); return clearRect.apply(this, box); };
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    if (!texts.has(this.canvas)) texts.set(this.canvas, []);
    texts.get(this.canvas).push(text);
    return fillText.call(this, text, ...rest);
};
window.drawnTexts = (canvas) => texts.get(canvas) ?? [];
"""


def drawn(page: Page, name: str) -> list[str]:
    """The labels that a chart has now."""
    return chart(page, name).locator("canvas").evaluate("(canvas) => window.drawnTexts(canvas)")


def look(page: Page, fleet: Fleet, **view: Any) -> None:
    page.goto("about:blank")
    page.goto(fleet.url + "#path=root&" + "&".join(f"{key}={value}" for key, value in view.items()))
    expect(chart(page, "loss").get_by_role("img")).to_be_visible()


def test_no_axis_says_the_same_twice_at_any_zoom(fleet: Fleet, page: Page) -> None:
    page.add_init_script(WITNESS)
    fleet.log({"loss": [1000.0 + i * 1e-4 for i in range(40)], "far": FALLING}, step=1_000_000)
    page.goto(fleet.url)
    has_points(page, "loss", "40")
    started = fleet.read("api/v1/run")["started_at"]
    at = fleet.read("api/v1/series?metric=loss&x=time")["x"][0]
    views: list[dict[str, Any]] = [
        {"x": "step"},
        {"x": "step", "zoom": "1000003:1000009"},
        *(
            {"x": "relative", "zoom": f"{at - started - width}:{at - started + width}"}
            for width in (0.004, 0.3, 2, 300)
        ),
        *({"x": "time", "zoom": f"{at - width}:{at + width}"} for width in (0.05, 1, 400, 200_000)),
        {"x": "step", "log": "loss"},
    ]
    for view in views:
        look(page, fleet, **view)
        expect(chart(page, "loss").locator("canvas")).to_be_visible()
        wait_for(lambda: len(drawn(page, "loss")) > 3, f"labels of {view}")
        labels = drawn(page, "loss")
        assert len(set(labels)) == len(labels), (view, labels)


def test_the_heat_map_of_a_short_run_says_no_time_twice(fleet: Fleet, page: Page) -> None:
    page.add_init_script(WITNESS)
    fleet.totals = {rank: {"step_seconds": 0.12, "own_step_seconds": 0.11} for rank in range(2)}
    fleet.steps(0, 40, {1: 0.01}, step_seconds=0.12)
    page.goto(fleet.url + "#path=root&tab=ranks")
    heat = page.get_by_role("region", name="Heat map").locator("canvas")
    expect(heat).to_be_visible()
    page.wait_for_function("(canvas) => window.drawnTexts(canvas).length > 4", arg=heat.element_handle())
    times = [text for text in heat.evaluate("(canvas) => window.drawnTexts(canvas)") if re.search(r"\d+m?s$", text)]
    axis = times[:-2]  # what follows are the two ranks' means
    assert len(axis) > 2
    assert len(set(axis)) == len(axis), times


def test_zoomed_in_the_pointer_reaches_every_step(fleet: Fleet, page: Page) -> None:
    values = [float(i % 97) for i in range(4000)]
    fleet.log({"loss": values})
    page.goto(fleet.url + "#path=root&zoom=2000:2030")
    plot = chart(page, "loss").get_by_role("img")
    expect(plot).to_have_attribute("aria-label", re.compile(r": 3\d points"))
    said = chart(page, "loss").get_by_role("status")
    box = plot.bounding_box()
    assert box
    read: dict[int, float] = {}
    for x in range(0, int(box["width"]), 5):
        page.mouse.move(box["x"] + x, box["y"] + box["height"] / 2)
        words = said.inner_text().replace("\u202f", "")
        if found := re.search(r"step (\d+)\s+([\d.]+)", words):
            read[int(found[1])] = float(found[2])
    assert set(range(2000, 2031)) <= set(read)
    assert all(value == values[step] + 0.5 for step, value in read.items())


def test_one_rank_that_is_not_finite_leaves_the_others_band(fleet: Fleet, page: Page) -> None:
    fleet.log({"loss": [1.0, 2.0, 3.0, 4.0]}, ranks=(0,))
    fleet.log({"loss": [3.0, float("nan"), 5.0, 6.0]}, ranks=(1,))
    page.goto(fleet.url)
    has_points(page, "loss", "4")
    expect(chart(page, "loss")).to_contain_text("1 not finite")
    chart(page, "loss").get_by_role("img").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    said = chart(page, "loss").get_by_role("status")
    expect(said).to_contain_text(re.compile(r"step 1\s*2\.0000"))
    expect(chart(page, "loss")).to_contain_text("NaN here")
    expect(chart(page, "loss").get_by_role("button", name="min–max")).not_to_contain_text("NaN")
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text(re.compile(r"step 2\s*4\.5000"))
    expect(chart(page, "loss")).to_contain_text("1 not finite")


def test_who_is_counted_is_who_tells_the_metric(fleet: Fleet, page: Page) -> None:
    """Not everybody logs everything, and the newest step is no cohort's while some have yet to tell it."""
    fleet.log({"lr": [1.0 + i % 7 for i in range(5000)]}, ranks=(1,))
    fleet.log({"loss": FALLING})
    page.goto(fleet.url)
    expect(chart(page, "lr")).to_contain_text("lr (mean) of rank 1")
    expect(chart(page, "loss")).to_contain_text("loss (mean) of 2 ranks")
    has_points(page, "loss", "40")
    fleet.log({"loss": [9.0]}, step=40, ranks=(0,))
    has_points(page, "loss", "41")
    expect(chart(page, "loss")).to_contain_text("loss (mean) of 2 ranks")  # the other one may be on its way
    fleet.log({"loss": [9.0, 9.0]}, step=41, ranks=(0,))
    expect(chart(page, "loss")).to_contain_text("loss (mean) of 1 of 2 ranks")
    fleet.log({"loss": [9.0, 9.0, 9.0]}, step=40, ranks=(1,))
    expect(chart(page, "loss")).to_contain_text("loss (mean) of 2 ranks")
