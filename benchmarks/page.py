"""The page over very large runs, in a real Chromium: until it is drawn, how smoothly it lives, and what it holds.

`python benchmarks/page.py [PART …]`: each part is a run of its own, and its figures are saved beside those of the others.

A crowd of ranks speaks the real wire to a real controller (`tests/browser/crowd.py`); frames are what
`requestAnimationFrame` gives while the job goes on, beside an empty page in the same browser. There is no GPU and the
crowd, the controller and the browser share the machine, so a figure is a bound from above.
"""

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright
from record import HERE, Figure, kept, number, save, stamp

sys.path.insert(0, str(HERE.parent))
from tests.browser.crowd import SPIKE, Crowd, Job

CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE = Job(ranks=1024, metrics=20, history=120, slow=(517,), dead=(700, 701), odd=True)
MANY = Job(ranks=8, metrics=500, history=300, slow=(3,))
LONG = Job(ranks=1, metrics=2, long=10_000_000, spikes=(7_654_321,))
HOUR_SPEED = 30
HOUR = Job(ranks=8, metrics=20, hz=HOUR_SPEED, sample_s=2 / HOUR_SPEED)
HOUR_STEPS = 3600
HOUR_LOOKS = 12
HOUR_MOST_S = 170.0
SETTLED = 600_000
QUESTIONS = (
    "points=1000",
    "points=777",
    "points=1000&x=relative",
    "points=1000&from=7000000&to=8000000",
    "points=1000&from=7654000&to=7655000",
    "points=1000&from=2500000&to=5100000",
    "points=1000&from=100&to=50000",
)
PARTS = ("wide", "many", "long", "hour")
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
    """Opened, the long series drawn, and asked for the first time."""
    began = time.monotonic()
    with crowded(LONG) as crowd:
        fed = time.monotonic() - began
        took = opened(page, crowd.url)
        card = page.get_by_role("article", name="long/spiky")
        card.locator("canvas").wait_for()
        wait_until_settled(crowd)
        answers = [asked(crowd, question) for question in QUESTIONS]
    whole = answers[0]["answer"]
    return {
        "opened_s": took,
        "fed_s": fed,
        "answer_ms": [answer["ms"] for answer in answers],
        "answer_kb": max(answer["kb"] for answer in answers),
        "highest": max(whole["max"]),
    }


def wait_until_settled(crowd: Crowd) -> None:
    """Until what came so much faster than any job logs is in segments."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{crowd.url}healthz", timeout=60) as answer:
            if json.loads(answer.read())["counters"]["points_in_memory"] < SETTLED:
                return
        time.sleep(0.5)


def asked(crowd: Crowd, question: str) -> dict[str, Any]:
    """One chart answer that nobody has asked for before."""
    began = time.monotonic()
    with urllib.request.urlopen(f"{crowd.url}api/v1/series?metric=long/spiky&{question}", timeout=60) as answer:
        body = answer.read()
    return {"ms": (time.monotonic() - began) * 1000, "kb": len(body) / 1000, "answer": json.loads(body)}


def heap_mb(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"] / 1e6


def step_of(crowd: Crowd) -> int:
    with urllib.request.urlopen(f"{crowd.url}api/v1/run", timeout=60) as answer:
        return json.loads(answer.read())["step"] or 0


def hour(page: Page, session: CDPSession) -> dict[str, Any]:
    """The heap of the tab, collected, while an hour of steps and of samples goes by at thirty times its speed."""
    heaps: list[tuple[int, float]] = []
    with crowded(HOUR) as crowd:
        opened(page, crowd.url)
        began, first = time.monotonic(), step_of(crowd)
        while len(heaps) < HOUR_LOOKS and time.monotonic() - began < HOUR_MOST_S:
            page.wait_for_timeout(200)
            if step_of(crowd) - first >= (len(heaps) + 1) * HOUR_STEPS // HOUR_LOOKS:
                heaps.append((step_of(crowd) - first, heap_mb(session)))
        took = time.monotonic() - began
    return {"heap_mb": heaps, "speed": heaps[-1][0] / took, **flatness(heaps)}


def flatness(heaps: list[tuple[int, float]]) -> dict[str, float]:
    """How much the heap grows in an hour of steps by a straight line through its second half, and the most it was."""
    late = heaps[len(heaps) // 2 :]
    steps, sizes = [step for step, _ in late], [size for _, size in late]
    middle, mean = sum(steps) / len(late), sum(sizes) / len(late)
    slope = sum((x - middle) * (y - mean) for x, y in late) / sum((x - middle) ** 2 for x in steps)
    return {"grown_mb_an_hour": slope * HOUR_STEPS, "most_mb": max(size for _, size in heaps), "at_end_mb": sizes[-1]}


def measure(name: str) -> dict[str, Any]:
    """One part, in a browser of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        try:
            if name == "long":
                return long_run(page)
            if name == "hour":
                return hour(page, page.context.new_cdp_session(page))
            return live(page, WIDE if name == "wide" else MANY)
        finally:
            browser.close()


def figures(found: dict[str, Any]) -> list[Figure]:
    """The table's rows, of the parts that were measured."""
    out: list[Figure] = []
    for name, title in (("wide", "1,024 ranks on 128 hosts × 26 metrics"), ("many", "500 metrics on 8 ranks")):
        if name in found:
            out += frames(title, found[name])
    if "long" in found:
        out += long_figures(found["long"])
    if "hour" in found:
        out += hour_figures(found["hour"])
    return out


def frames(title: str, run: dict[str, Any]) -> Iterator[Figure]:
    yield Figure(f"{title}: page opened until charts are drawn", run["opened_s"], "s", 1.5, note=when(run))
    for part in ("overview", "scrolling", "ranks", "resources"):
        seen, empty = run[part], run["empty"]
        note = (
            f"median {seen['p50_ms']:.1f} ms, 95th percentile {seen['p95_ms']:.0f} ms a frame; "
            f"empty page {empty['frames_per_s']:.0f} frames/s; "
            f"long tasks {seen['long_tasks_ms_per_s']:.0f} ms a second"
        )
        yield Figure(f"{title}: {part}", seen["frames_per_s"], "frames/s", note=note)


def long_figures(run: dict[str, Any]) -> Iterator[Figure]:
    title = "10 M points in one series, a live run"
    note = f"ten million points over the wire in {run['fed_s']:.0f} s before; {when(run)}"
    yield Figure(f"{title}: page opened until charts are drawn", run["opened_s"], "s", 1.5, note=note)
    note = f"over HTTP, each asked once while the run goes on; {', '.join(f'{ms:.0f}' for ms in run['answer_ms'])} ms"
    yield Figure(f"{title}: one chart answer, median", median(run["answer_ms"]), "ms", 150, note=note)
    yield Figure(f"{title}: its size", run["answer_kb"], "kB", 100)
    yield Figure(f"{title}: the one spike is in it", float(run["highest"] == SPIKE), "", 1, "least")


def hour_figures(run: dict[str, Any]) -> Iterator[Figure]:
    title = f"an hour of steps and samples, {HOUR.ranks} ranks × {HOUR.metrics} metrics"
    note = (
        f"at {run['speed']:.0f} times its speed; JS heap after collection, "
        f"{', '.join(f'{size:.0f}' for _, size in run['heap_mb'])} MB over the hour; a line through its second half"
    )
    yield Figure(f"{title}: the tab's heap grows by", run["grown_mb_an_hour"], "MB/h", 10, note=note)
    yield Figure(f"{title}: most", run["most_mb"], "MB", note=when(run))


def when(run: dict[str, Any]) -> str:
    known = run.get("measured")
    return f"{known['measured_at'][:16]}, load {number(known['load'])}" if known else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", choices=(*PARTS, []), metavar="PART", help=f"{', '.join(PARTS)}; default: all"
    )
    parser.add_argument("--dry", action="store_true", help="print, save nothing")
    options = parser.parse_args()
    for part in options.parts or PARTS:
        found = {**measure(part), "measured": stamp()}
        if options.dry:
            print(json.dumps(found))
        else:
            runs = {**kept("page"), part: found}
            save("page", "The page over very large runs", figures(runs), raw=runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
