"""Reports and run folders after a clean end: of 1 M points, and of 10 M points in one series.

`python benchmarks/report.py [PART …]`: a real controller takes the points over the wire and comes to its clean end; the
report it wrote is opened in a Chromium that has seen nothing. Each part is a run of its own, and its figures are saved
beside those of the others.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from page import CHROMIUM, opened, when
from playwright.sync_api import sync_playwright
from record import HERE, Figure, kept, save, stamp

sys.path.insert(0, str(HERE.parent))
from tests.browser.crowd import SPIKE, Crowd, Job

JOBS = {
    "million": (Job(ranks=8, metrics=20, history=6249), "1 M points, 8 ranks × 20 metrics"),
    "ten": (Job(ranks=1, metrics=2, long=10_000_000, spikes=(7_654_321,)), "10 M points in one series"),
}
PEERS = "43 (TensorBoard), 89 (wandb), 97 (trackio), 160 (aim)"


class Peak(threading.Thread):
    """The most memory a process has had, as long as it lives."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self.most_mb = 0.0

    def run(self) -> None:
        while lines := self._lines():
            known = [line.split()[1] for line in lines if line.startswith("VmHWM")]
            self.most_mb = max(self.most_mb, *(int(size) / 1000 for size in known), 0.0)
            time.sleep(0.02)

    def _lines(self) -> list[str]:
        try:
            return self._status.read_text().splitlines()
        except OSError:
            return []


def measure(job: Job) -> dict[str, Any]:
    """From the first value to the opened report."""
    with tempfile.TemporaryDirectory(prefix="trackside-report-") as base:
        crowd = Crowd(Path(base), job)
        try:
            peak = Peak(crowd.controller)
            peak.start()
            crowd.rest()
            began = time.monotonic()
            answer = urllib.request.urlopen(f"{crowd.url}api/v1/report", timeout=120).read()
            baked_s = time.monotonic() - began
            points = json.loads(urllib.request.urlopen(f"{crowd.url}healthz", timeout=60).read())["counters"]["points"]
            live_mb = peak.most_mb
            ended_s = crowd.end()
        finally:
            crowd.close()
        report = crowd.folder / "report.html"
        return {
            "points": points,
            "answer_ms": baked_s * 1000,
            "answer_mb": len(answer) / 1e6,
            "ended_s": ended_s,
            "live_mb": live_mb,
            "peak_mb": peak.most_mb,
            "report_mb": report.stat().st_size / 1e6,
            "highest": max(value for curve in json.loads(answer)["series"] for value in curve["max"]),
            "folder_bytes_a_point": size_of(crowd.folder, but=report) / points,
            "points_bytes_a_point": size_of(crowd.folder / "points") / points,
            "opened_s": sorted(open_report(report) for _ in range(3))[1],
        }


def size_of(folder: Path, but: Path | None = None) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path != but)


def open_report(report: Path) -> float:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        try:
            return opened(browser.new_page(viewport={"width": 1440, "height": 900}), report.as_uri())
        finally:
            browser.close()


def figures(found: dict[str, Any]) -> list[Figure]:
    """The table's rows, of the parts that were measured."""
    out = []
    for part, run in found.items():
        title = JOBS[part][1]
        whole = f"everything in the run folder but the report; its points alone {run['points_bytes_a_point']:.2f}"
        out += [
            Figure(f"{title}: report", run["report_mb"], "MB", 3, note=f"{run['points']:,} points; {when(run)}"),
            Figure(f"{title}: report opens", run["opened_s"], "s", 1.5, note="until charts are drawn, median of 3"),
            Figure(f"{title}: stored after a clean end", run["folder_bytes_a_point"], "bytes/point", 4, peer=PEERS, note=whole),
            Figure(f"{title}: all that a report holds, asked of a live run", run["answer_ms"], "ms"),
            Figure(f"{title}: from the last goodbye to the end", run["ended_s"], "s", note="report and files are whole"),
            Figure(f"{title}: memory of the controller, most", run["peak_mb"], "MB", 500 if part == "million" else None,
                   note=f"{run['live_mb']:.0f} MB before the end"),
        ]  # fmt: skip
        if JOBS[part][0].spikes:
            out.append(
                Figure(f"{title}: the one spike is in the report", float(run["highest"] == SPIKE), "", 1, "least")
            )
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", choices=(*JOBS, []), metavar="PART", help=f"{', '.join(JOBS)}; default: all"
    )
    parser.add_argument("--dry", action="store_true", help="print, save nothing")
    options = parser.parse_args()
    for part in options.parts or JOBS:
        found = {**measure(JOBS[part][0]), "measured": stamp()}
        if options.dry:
            print(json.dumps(found))
        else:
            runs = {**kept("report"), part: found}
            save("report", "Reports and run folders", figures(runs), raw=runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
