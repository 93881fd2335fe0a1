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
RANKS, STEPS, PLAN, EPOCH, TURN = 3, 460, 1000, 50, 10
STEP_S, BATCH = 0.22, 32
SLOW, SLOW_DATA_S = 2, 0.095
GB = 1 << 30


def values(step: int, rank: int, noise: random.Random) -> dict[int, float]:
    """What a rank logs at a step: a small network learns."""
    loss = 2.2 * math.exp(-step / 60) + 0.06 + abs(noise.gauss(0, 0.12 * math.exp(-step / 200) + 0.01))
    norm = 2.4 * math.exp(-(((step - 80) / 120) ** 2)) + 0.5 + abs(noise.gauss(0, 0.35))
    out = {0: loss, 1: norm, 2: 1e-3 * (1 + math.cos(math.pi * step / PLAN))}
    if step % EPOCH == EPOCH - 1:
        out[3] = 0.98 - 0.6 * math.exp(-step / 90) + noise.gauss(0, 0.004)
    return out


def train(fleet: Fleet) -> None:
    """As long as such steps take, so that all figures agree. Blocks: for 100 s."""
    fleet.send(0, messages.SetPlan(epochs=PLAN // EPOCH, steps=PLAN, name="digits-ddp"))
    noise = [random.Random(rank) for rank in range(RANKS)]
    for first in range(0, STEPS, TURN):
        turn(fleet, first, noise)
        time.sleep(TURN * STEP_S)


def turn(fleet: Fleet, first: int, noise: list[random.Random]) -> None:
    """What the ranks say of their next steps."""
    for rank in range(RANKS):
        calls = [values(step, rank, noise[rank]) for step in range(first, first + TURN)]
        fleet.send(rank, points(calls, step=first, names={} if first else dict(enumerate(NAMES))))
        fleet.send(rank, sample(rank))
        if (first + TURN) % EPOCH < TURN:
            epoch = first // EPOCH
            means = {"loss": 0.06 + 2.0 * math.exp(-epoch)}
            fleet.send(
                rank,
                messages.EpochReport(
                    epoch=epoch, metrics=means, batches=EPOCH, samples=EPOCH * BATCH, seconds=EPOCH * STEP_S
                ),
            )
    done = first + TURN
    fleet.totals = {
        rank: {
            "step": done - 1, "batches": done, "samples": done * BATCH, "step_seconds": STEP_S,
            "own_step_seconds": 0.102 + data, "phases": {"data": data * done, "forward": 0.04 * done, "backward": 0.05 * done},
        }
        for rank, data in ((rank, SLOW_DATA_S if rank == SLOW else 0.005) for rank in range(RANKS))
    }  # fmt: skip
    fleet.steps(first, TURN, {SLOW: SLOW_DATA_S}, step_seconds=STEP_S)


def sample(rank: int) -> messages.ResourceSample:
    """What a rank uses, and from rank 0 what its host does."""
    host = messages.HostSample(
        cpu=0.62, cpu_count=8.0, memory_used=9 * GB, memory_total=32 * GB, network_sent=1e6, network_received=2e6,
        disk_read=0.0, disk_written=5e6, disk_used=GB, disk_total=9 * GB,
    )  # fmt: skip
    mine = messages.RankSample(cpu=0.2, memory=GB)
    return messages.ResourceSample(time=time.time(), interval_seconds=2.0, host=host if rank == 0 else None, rank=mine)


def main() -> int:
    """Take it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        fleet = Fleet(Path(folder), hosts=("node-a",) * RANKS)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            train(fleet)
            wait_for(lambda: (fleet.read("api/v1/run")["diagnosis"] or {}).get("verdicts"), "a verdict")
            page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="dark")
            page.goto(fleet.url)
            page.get_by_role("article", name="grad_norm").get_by_role("img").wait_for()
            page.wait_for_timeout(1000)
            page.screenshot(path=PICTURE)
        finally:
            browser.close()
            fleet.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
