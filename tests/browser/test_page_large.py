"""The page over runs that are very large: what it draws is bounded by what is seen, and what is odd is seen."""

import json
import re
import unicodedata
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.crowd import LATE_STEP, ODD_NAMES, Crowd, Job
from tests.browser.fleet import wait_for
from tests.browser.test_page_live import chart

Begin = Callable[[Job], Crowd]
GAP = 20
"""Steps at which the metric with a gap has no value."""
SCRIPTS = {"CJK", "CYRILLIC", "LATIN"}


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts a crowd and ends it after the test."""
    started: list[Crowd] = []

    def start(job: Job) -> Crowd:
        started.append(Crowd(tmp_path, job))
        return started[-1]

    yield start
    for crowd in started:
        crowd.close()


def parts(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Parts").get_by_role("link", name=name).click()


def test_of_many_ranks_the_odd_one_and_the_dead_are_named_and_few_are_drawn(begin: Begin, page: Page, shoot) -> None:
    crowd = begin(Job(ranks=160, metrics=4, history=40, slow=(77,), dead=(33, 34)))
    page.goto(crowd.url)
    alive = page.get_by_role("group", name="Ranks alive")
    expect(alive).to_contain_text("158 / 160")
    expect(page.get_by_role("table", name="Standings").get_by_role("row").nth(1)).to_contain_text("rank77")
    assert page.get_by_role("table", name="Standings").get_by_role("row").count() < 60
    alive.get_by_role("link", name="2 failed").click()
    unwell = page.get_by_role("list", name="Ranks that are not well")
    expect(unwell).to_contain_text("rank33")
    expect(unwell).to_contain_text("failed · SIGKILL")
    expect(unwell.get_by_role("listitem").nth(1)).to_contain_text("rank34")
    expect(page.get_by_role("region", name="Heat map")).to_contain_text("rank 77 differs most")
    ranks = page.get_by_role("table", name="Ranks")
    assert ranks.get_by_role("row").count() < 80
    expect(ranks).to_have_attribute("aria-rowcount", "161")
    shoot(page, "many-ranks")
    page.get_by_role("searchbox", name="Find ranks").fill("gpu-004 failed")
    expect(ranks.get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("region", name="Ranks", exact=True)).to_contain_text("2 of 160 ranks below root")
    page.reload()
    expect(ranks.get_by_role("row")).to_have_count(3)
    page.get_by_role("searchbox", name="Find ranks").fill("nowhere")
    expect(page.get_by_text("No rank fits “nowhere”.")).to_be_visible()
    unwell.get_by_role("link", name="rank33").click()
    expect(page).to_have_url(re.compile("rank33"))


def test_many_hosts_are_a_line_each(begin: Begin, page: Page, shoot) -> None:
    crowd = begin(Job(ranks=40, per_host=2, metrics=2, history=10, slow=(11,)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(crowd.url + "#path=root&tab=resources")
    hosts = page.get_by_role("table", name="Hosts")
    expect(hosts.get_by_role("row")).to_have_count(21)
    expect(hosts.get_by_role("row").nth(1)).to_contain_text("gpu-005")
    assert not [url for url in asked if "resources" in url], "columns are asked for, not records"
    page.get_by_role("searchbox", name="Find hosts").fill("gpu-01")
    expect(hosts.get_by_role("row")).to_have_count(11)
    page.get_by_role("searchbox", name="Find hosts").fill("")
    expect(page.get_by_role("region", name="Hosts")).to_contain_text("20 hosts; unlike the others: gpu-005")
    hosts.get_by_role("button", name="GPU").click()
    hosts.get_by_role("button", name="GPU").click()
    expect(hosts.get_by_role("row").nth(1)).to_contain_text("gpu-005")
    expect(chart(page, "GPU utilisation")).to_contain_text("by rank · 32 of 40")
    others = chart(page, "GPU utilisation").get_by_role("button", name="others")
    expect(others).to_contain_text("%")
    expect(chart(page, "GPU utilisation").get_by_role("button", name="rank 11")).to_contain_text("30\u202f%")
    others.click()
    expect(chart(page, "GPU utilisation").get_by_role("button", name="rank ")).to_have_count(32)
    shoot(page, "many-hosts")
    hosts.get_by_role("link", name="gpu-005").click()
    expect(page.get_by_role("article", name="gpu-005")).to_contain_text("2 ranks")


def test_odd_metrics_are_shown_as_they_are(begin: Begin, page: Page) -> None:
    crowd = begin(Job(ranks=8, metrics=2, history=120, odd=True))
    page.goto(crowd.url)
    for key in ("nan", "inf"):
        chart(page, ODD_NAMES[key]).scroll_into_view_if_needed()
        expect(chart(page, ODD_NAMES[key])).to_contain_text("not finite")
    chart(page, ODD_NAMES["late"]).scroll_into_view_if_needed()
    late = chart(page, ODD_NAMES["late"]).get_by_role("img")
    expect(late).to_have_attribute("aria-label", re.compile(r"\d+ points"))
    seen = int(re.findall(r"(\d+) points", late.get_attribute("aria-label") or "")[0])
    assert 121 - LATE_STEP <= seen < 121
    chart(page, ODD_NAMES["gap"]).scroll_into_view_if_needed()
    gap = chart(page, ODD_NAMES["gap"]).get_by_role("img")
    crowd.rest()
    wait_for(lambda: f" {last_step(crowd) + 1 - GAP} points" in f" {gap.get_attribute('aria-label')}", "a gap", 30)
    expect(chart(page, ODD_NAMES["html"])).to_be_attached()
    name = ODD_NAMES["long"]
    assert (len(name), {unicodedata.name(letter).split()[0] for letter in name if letter.isalpha()}) == (200, SCRIPTS)
    expect(chart(page, name)).to_be_attached()
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_that_lives_asks_for_little(begin: Begin, page: Page) -> None:
    """Once it is open the stream brings what is new: a chart is not asked for again and again."""
    crowd = begin(Job(ranks=8, metrics=60, history=50, hz=10))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(crowd.url)
    first = chart(page, "loss").get_by_role("img")
    expect(first).to_have_attribute("aria-label", re.compile(r"points"))
    wait_for(lambda: page.title() and len({url for url in asked if "series" in url}) >= 60, "every metric's curve", 60)
    asked.clear()
    for _ in range(10):
        before = first.get_attribute("aria-label") or ""
        expect(first).not_to_have_attribute("aria-label", before)
    assert len([url for url in asked if "series" in url]) <= 4, asked
    assert len(asked) <= 10, asked


def test_a_tab_that_was_asleep_has_every_step_once(begin: Begin, page: Page) -> None:
    """Steps are numbered from 0: there are as many points as steps, unless one is missing or told twice."""
    crowd = begin(Job(ranks=2, metrics=1, history=30, hz=40))
    page.goto(crowd.url)
    plot = chart(page, "loss").get_by_role("img")
    expect(plot).to_have_attribute("aria-label", re.compile("points"))
    session = page.context.new_cdp_session(page)
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    slept = last_step(crowd)
    wait_for(lambda: last_step(crowd) >= slept + 400, "four hundred steps", 60)
    session.send("Page.setWebLifecycleState", {"state": "active"})

    def count() -> int:
        return int(re.findall(r"([\d\s]+) points", plot.get_attribute("aria-label") or "0 points")[0])

    wait_for(lambda: count() >= slept + 400, "what was missed", 30)
    crowd.rest()
    wait_for(lambda: count() == last_step(crowd) + 1, "every step once", 30)


def last_step(crowd: Crowd) -> int:
    with urllib.request.urlopen(crowd.url + "api/v1/metrics", timeout=10) as answer:
        return int(json.loads(answer.read())[0]["last_step"])


HOUR_STEPS = 3600
MOST_GROWTH_MB = 8.0


@pytest.mark.long
def test_a_tab_holds_no_more_after_an_hour_than_after_half_of_it(begin: Begin, page: Page) -> None:
    """An hour of steps and of samples, sixty times as fast."""
    crowd = begin(Job(ranks=4, metrics=12, hz=60, sample_s=2 / 60))
    page.goto(crowd.url)
    expect(chart(page, "loss").get_by_role("img")).to_have_attribute("aria-label", re.compile("points"))
    session = page.context.new_cdp_session(page)

    def least_mb() -> float:
        """Of some looks: a page on a busy machine holds for a while what it has not drawn yet."""
        found = []
        for _ in range(4):
            page.wait_for_timeout(1000)
            session.send("HeapProfiler.collectGarbage")
            found.append(session.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
        return min(found)

    wait_for(lambda: last_step(crowd) >= HOUR_STEPS // 2, "half of it", 200)
    half = least_mb()
    wait_for(lambda: last_step(crowd) >= HOUR_STEPS, "all of it", 200)
    crowd.rest()
    whole = least_mb()
    print(f"{half:.1f} MB after half of it, {whole:.1f} MB at its end")
    assert whole < half + MOST_GROWTH_MB, (half, whole)


SPIKE_AT = 1_234_567
DRAWN = """(element) => {
    const canvas = element.querySelector("canvas");
    const { width, height } = canvas;
    const top = Math.round(height * 0.3);
    const pixels = canvas.getContext("2d").getImageData(0, 0, width, top).data;
    const columns = new Set();
    for (let i = 0; i < pixels.length; i += 4)
        if (pixels[i + 3] > 20 && pixels[i + 2] - pixels[i] > 30) columns.add((i / 4) % width);
    const labels = 60 * devicePixelRatio;
    return [...columns].filter((column) => column > labels).sort((a, b) => a - b).map((column) => column / width);
}"""
"""Where something of the curve's colour lies in the upper part of a chart, as parts of its width."""


@pytest.mark.long
def test_a_spike_of_one_point_among_millions_is_seen_at_every_zoom(begin: Begin, page: Page) -> None:
    crowd = begin(Job(ranks=1, metrics=1, samples=False, long=2_000_000, spikes=(SPIKE_AT,)))
    for reach in (None, 500_000, 50_000, 5_000, 500, 5):
        zoom = "" if reach is None else f"&zoom={SPIKE_AT - reach}:{SPIKE_AT + reach // 2}"
        page.goto("about:blank")
        page.goto(f"{crowd.url}#path=root{zoom}")
        assert_spike(page, SPIKE_AT / 2_000_000 if reach is None else reach / (reach + reach // 2))


@pytest.mark.long
def test_a_spike_is_seen_after_every_drag(begin: Begin, page: Page) -> None:
    crowd = begin(Job(ranks=1, metrics=1, samples=False, long=2_000_000, spikes=(SPIKE_AT,)))
    page.goto(crowd.url)
    part = assert_spike(page, SPIKE_AT / 2_000_000)
    for _ in range(4):
        box = chart(page, "long/spiky").get_by_role("img").bounding_box()
        assert box
        middle, x = box["y"] + box["height"] / 2, box["x"] + box["width"] * part
        page.mouse.move(x - 40, middle)
        page.mouse.down()
        page.mouse.move(x + 40, middle, steps=3)
        page.mouse.up()
        part = assert_spike(page, 0.5)
    expect(page).to_have_url(re.compile("zoom="))


def assert_spike(page: Page, part: float) -> float:
    """The spike is drawn, alone, about where it belongs, and is read out there; where in the chart's width."""
    card = chart(page, "long/spiky")
    card.scroll_into_view_if_needed()
    plot = card.get_by_role("img")
    expect(plot).to_have_attribute("aria-label", re.compile("points"))

    def drawn() -> list[float]:
        found: list[float] = plot.evaluate(DRAWN)
        return found if found and max(found) - min(found) < 0.4 and abs(found[0] - part) < 0.3 else []

    columns = wait_for(drawn, "a spike in the upper part of the chart")
    middle = (columns[0] + columns[-1]) / 2
    box = plot.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * middle - 4, box["y"] + box["height"] / 2)
    plot.focus()
    for _ in range(150):  # several entries lie on one pixel: the arrow keys go from one to the next
        if re.search(r"1\D?000\.00", card.inner_text()):
            return middle
        plot.press("ArrowRight")
    raise AssertionError(f"the spike is not read out: {card.inner_text()!r}")
