"""A run as wide as people's runs are: 1,500 metrics, 150 parameters, 50 tags, and far more metadata than anybody reads."""

import json
import re

from playwright.sync_api import Page, expect

from tests.browser.fleet import Fleet, wait_for
from trackside.wire import messages

METRICS = [f"group {number % 20}/metric {number:04}" for number in range(1500)]
METADATA = {
    **{f"parameter {number:03}": number / 7 for number in range(150)},
    "tags": [f"tag {number}" for number in range(50)],
    "listing": {f"file {number:05}": "x" * 60 for number in range(2000)},
}


def test_d54_d55_d57_a_wide_run_is_as_easy_to_read(fleet: Fleet, page: Page) -> None:
    assert len(json.dumps(METADATA)) > 100_000
    fleet.log({name: [1.0, 2.0] for name in METRICS})
    fleet.send(0, messages.SetMetadata(text=json.dumps(METADATA)))
    wait_for(lambda: len(fleet.read("api/v1/metrics")) == len(METRICS), "every metric")
    page.goto(fleet.url)
    page.get_by_label("Filter metrics").fill("metric 1499")
    card = page.get_by_role("article", name="group 19/metric 1499", exact=True)
    expect(card.get_by_role("img")).to_have_attribute("aria-label", re.compile("2 points"))
    assert page.get_by_role("article").count() < 10
    page.get_by_label("Filter metrics").fill("")
    expect(page.get_by_role("article").first).to_be_visible()
    assert page.locator("canvas").count() < 200, "only what is in view is drawn"
    page.get_by_role("navigation", name="Parts").get_by_role("link", name="Config").click()
    expect(page.get_by_role("region", name="Metadata")).to_contain_text("parameter 149")
    assert page.locator("*").count() < 20_000
