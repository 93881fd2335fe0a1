"""The page over very large runs, in a real Chromium: until it is drawn, how smoothly it lives, and what it holds.

A crowd of ranks speaks the real wire to a real controller (`tests/browser/crowd.py`); frames are what
`requestAnimationFrame` gives while the job goes on, beside an empty page in the same browser. There is no GPU and the
crowd, the controller and the browser share the machine, so a figure is a bound from above.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright
from record import HERE, Figure, save

sys.path.insert(0, str(HERE.parent))
from tests.browser.crowd import Crowd, Job

CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE = Job(ranks=1024, metrics=20, history=120, slow=(517,), dead=(700, 701), odd=True)
MANY = Job(ranks=8, metrics=500, history=300, slow=(3,))
LONG = Job(ranks=1, metrics=2, long=10_000_000, spikes=(7_654_321,))
HOUR = Job(ranks=16, metrics=20, hz=60)
HOUR_STEPS = 3600
LIVE_MS = 5000
FRAMES = """(ms) => new Promise((done) => {
    const gaps = [], tasks = [];
    const watch = new PerformanceObserver((list) => list.getEntries().forEach((entry) => tasks.push(entry.duration)));
    watch.observe({ entryTypes: ["longtask"] });
    const began = performance.now();
    let last = began;
    const frame = () => {
        const now = performance.now();
        gaps.push(now - last);
        last = now;
        if (now - began < ms) requestAnimationFrame(frame);
        else { watch.disconnect(); done([gaps, tasks]); }
    };
    requestAnimationFrame(frame);
})"""
SCROLL = """async () => {
    const gaps = [];
    let last = performance.now();
    for (let y = 0; y < Math.min(document.documentElement.scrollHeight, 20000); y += 100) {
        scrollTo(0, y);
        await new Promise((done) => requestAnimationFrame(done));
        gaps.push(performance.now() - last);
        last = performance.now();
    }
    return [gaps, []];
}"""


def summary(found: list[list[float]]) -> dict[str, float]:
    """Frames as people judge them."""
    gaps, tasks = sorted(found[0]), found[1]
    seconds = sum(gaps) / 1000
    return {
        "frames_per_s": len(gaps) / seconds,
        "p50_ms": gaps[len(gaps) // 2],
        "p95_ms": gaps[int(len(gaps) * 0.95)],
        "longest_ms": gaps[-1],
        "long_tasks_ms_per_s": sum(tasks) / seconds,
    }


@contextmanager
def crowded(job: Job) -> Iterator[Crowd]:
    with tempfile.TemporaryDirectory(prefix="trackside-page-") as folder:
        crowd = Crowd(Path(folder), job)
        try:
            yield crowd
        finally:
            crowd.close()


def opened(page: Page, url: str) -> float:
    """Seconds until charts are drawn, of a browser that has seen nothing."""
    began = time.monotonic()
    page.goto(url)
    page.locator(".chart canvas").first.wait_for()
    return time.monotonic() - began


def live(page: Page, job: Job) -> dict[str, Any]:
    """One job: opened, watched on each tab, scrolled."""
    page.goto("about:blank")
    found: dict[str, Any] = {"empty": summary(page.evaluate(FRAMES, LIVE_MS / 2))}
    with crowded(job) as crowd:
        found["opened_s"] = opened(page, crowd.url)
        page.wait_for_timeout(2000)
        found["overview"] = summary(page.evaluate(FRAMES, LIVE_MS))
        found["scrolling"] = summary(page.evaluate(SCROLL))
        for tab in ("ranks", "resources"):
            page.evaluate("(tab) => void (location.hash = `#path=root&tab=${tab}`)", tab)
            page.wait_for_timeout(3000)
            found[tab] = summary(page.evaluate(FRAMES, LIVE_MS))
            found[f"{tab}_nodes"] = page.evaluate("document.querySelectorAll('*').length")
    return found


def long_run(page: Page) -> dict[str, Any]:
    with crowded(LONG) as crowd:
        took = opened(page, crowd.url)
        page.get_by_role("article", name="long/spiky").locator("canvas").wait_for()
    return {"opened_s": took}


def heap_mb(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"] / 1e6


def hour(page: Page, session: CDPSession) -> dict[str, Any]:
    """The heap of the tab while an hour of steps goes by at sixty times its speed."""
    with crowded(HOUR) as crowd:
        opened(page, crowd.url)
        page.wait_for_timeout(10_000)
        heaps = [heap_mb(session)]
        for _ in range(6):
            page.wait_for_timeout(HOUR_STEPS / HOUR.hz * 1000 / 6)
            heaps.append(heap_mb(session))
    return {"heap_mb": heaps, "grown_mb": heaps[-1] - heaps[len(heaps) // 2], "at_end_mb": heaps[-1]}


def measure(parts: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, job in (("wide", WIDE), ("many", MANY), ("long", LONG), ("hour", HOUR)):
        if name not in parts:
            continue
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            session = page.context.new_cdp_session(page)
            if name == "long":
                found[name] = long_run(page)
            else:
                found[name] = hour(page, session) if name == "hour" else live(page, job)
            browser.close()
        print(name, found[name], flush=True)
    return found


def figures(found: dict[str, Any]) -> list[Figure]:
    """The table's rows."""
    titles = {"wide": "1,024 ranks on 128 hosts × 26 metrics", "many": "500 metrics on 8 ranks"}
    out = []
    for name, title in titles.items():
        run = found[name]
        out.append(Figure(f"{title}: page opened until charts are drawn", run["opened_s"], "s", 1.5))
        for part in ("overview", "scrolling", "ranks", "resources"):
            frames, empty = run[part], run["empty"]
            note = (
                f"median {frames['p50_ms']:.1f} ms, 95th percentile {frames['p95_ms']:.0f} ms a frame; "
                f"empty page {empty['frames_per_s']:.0f} frames/s; "
                f"long tasks {frames['long_tasks_ms_per_s']:.0f} ms a second"
            )
            out.append(Figure(f"{title}: {part}", frames["frames_per_s"], "frames/s", note=note))
    out.append(
        Figure("10 M points in one series: page opened until charts are drawn", found["long"]["opened_s"], "s", 1.5)
    )
    hours = found["hour"]
    note = f"JS heap after collection; {', '.join(f'{heap:.0f}' for heap in hours['heap_mb'])} MB over the hour"
    out.append(
        Figure(
            "an hour of steps, 16 ranks × 20 metrics: heap grown in its second half", hours["grown_mb"], "MB", note=note
        )
    )
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=("wide", "many", "long", "hour"), help="measure one and print it; saves nothing"
    )
    options = parser.parse_args()
    parts = {options.only} if options.only else {"wide", "many", "long", "hour"}
    found = measure(parts)
    if not options.only:
        save("page", "The page over very large runs", figures(found), raw=found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
