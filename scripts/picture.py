"""Takes the README's picture, `docs/images/page.png`: three ranks speak the real wire to a real controller, one of them slow.

PYTHONPATH=src python scripts/picture.py
"""

import math
import random
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.fleet import Fleet, wait_for  # noqa: E402
from tests.process.wire_client import points  # noqa: E402
from trackside.wire import messages  # noqa: E402

PICTURE = ROOT / "docs/images/page.png"
NAMES = ["loss", "grad_norm", "lr", "val/acc"]
STEPS, PLAN, EPOCH = 456, 1000, 50
SLOW = 2
GB = 1 << 30


def values(step: int, rank: int, noise: random.Random) -> dict[int, float]:
    """What a rank logs at a step: a small network learns."""
    loss = 2.2 * math.exp(-step / 60) + 0.06 + abs(noise.gauss(0, 0.12 * math.exp(-step / 200) + 0.01))
    norm = 2.4 * math.exp(-(((step - 80) / 120) ** 2)) + 0.5 + abs(noise.gauss(0, 0.35))
    out = {0: loss, 1: norm, 2: 1e-3 * (1 + math.cos(math.pi * step / PLAN))}
    if step % EPOCH == EPOCH - 1:
        out[3] = 0.98 - 0.6 * math.exp(-step / 90) + noise.gauss(0, 0.004)
    return out


def work(fleet: Fleet) -> None:
    """Everything that was logged until now, and what each rank's steps take."""
    fleet.send(0, messages.SetPlan(epochs=PLAN // EPOCH, steps=PLAN, name="digits-ddp"))
    for rank in range(3):
        noise = random.Random(rank)
        calls = [values(step, rank, noise) for step in range(STEPS)]
        fleet.send(rank, points(calls, names=dict(enumerate(NAMES))))
        host = messages.HostSample(
            cpu=0.62, cpu_count=8.0, memory_used=9 * GB, memory_total=32 * GB, network_sent=1e6, network_received=2e6,
            disk_read=0.0, disk_written=5e6, disk_used=GB, disk_total=9 * GB,
        )  # fmt: skip
        mine = messages.RankSample(cpu=0.2, memory=GB)
        sample = messages.ResourceSample(
            time=time.time(), interval_seconds=2.0, host=host if rank == 0 else None, rank=mine
        )
        fleet.send(rank, sample)
        for epoch in range(STEPS // EPOCH):
            report = messages.EpochReport(
                epoch=epoch, metrics={"loss": 2.0 * math.exp(-epoch)}, batches=EPOCH, samples=EPOCH * 32, seconds=3.5
            )
            fleet.send(rank, report)
    own = {rank: 0.11 + (0.09 if rank == SLOW else 0.002 * rank) for rank in range(3)}
    fleet.totals = {
        rank: {
            "step": STEPS, "batches": STEPS, "samples": STEPS * 32, "step_seconds": 0.22, "own_step_seconds": seconds,
            "phases": {"data": (0.095 if rank == SLOW else 0.005) * STEPS, "forward": 0.04 * STEPS, "backward": 0.05 * STEPS},
        }
        for rank, seconds in own.items()
    }  # fmt: skip
    fleet.steps(0, 60, {SLOW: 0.095}, step_seconds=0.22)


def main() -> int:
    """Take it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        fleet = Fleet(Path(folder), hosts=("node-a",) * 3)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            work(fleet)
            wait_for(lambda: (fleet.read("api/v1/run")["diagnosis"] or {}).get("verdicts"), "a verdict")
            page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="dark")
            page.goto(fleet.url)
            page.get_by_role("article", name="grad_norm").get_by_role("img").wait_for()
            page.wait_for_timeout(2000)
            page.screenshot(path=PICTURE)
        finally:
            browser.close()
            fleet.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
