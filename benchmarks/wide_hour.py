"""What an hour of 1,024 ranks leaves in the controller's memory, in a few minutes.

The real controller, with journal, segments, run state and one open page, gets as many values, steps, samples and ranks as in
an hour at one step a second: 3,600 steps of 20 series of 1,024 ranks, 73.7 million values, each step at its own second of
simulated time. What is compressed is the clock and the envelopes: a message carries thirty steps, as that of a rank with
thirty steps a second would, and the next follows as soon as no more values are in memory than there are at one step a second.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ingest import SERIES, WIDE_RANKS, Bench
from record import Figure, save

from trackside.wire import messages

STEPS = 3600
EACH = 30
MOST_S = 270.0
"""Where the hour has not gone by after so long, the rest of it is left out, and the figures say how far it went."""
SAMPLED = 1
"""Messages between two samples of a device: enough of them that those in memory reach their bound."""
MOST_UNACKNOWLEDGED = 3
IN_MEMORY = 700_000
"""Values: a segment is begun at half a million, and written within moments."""
PHASES = ["data", "forward", "backward", "optimizer", "collective", "rest"]


def points(first: int, count: int, began: float) -> messages.Points:
    """Some steps of one rank, losses as a model computes them."""
    noise = np.random.default_rng(first).normal(0, 0.05, (count, SERIES))
    steps = np.arange(first, first + count, dtype="<i8")
    value = (2 / (1 + steps[:, None] / 200) + noise).astype(np.float32)
    return messages.Points(
        defs=[messages.SeriesDef(id=n, name=f"train/metric{n}") for n in range(SERIES)] if first == 0 else [],
        time=(began + steps).astype("<f8").tobytes(),
        step=steps.tobytes(),
        epoch=np.full(count, -1, "<i4").tobytes(),
        width=np.full(count, SERIES, "<u4").tobytes(),
        series=np.tile(np.arange(SERIES, dtype="<u4"), count).tobytes(),
        value=value.astype("<f8").tobytes(),
    )


def step_times(first: int, count: int, began: float) -> messages.StepTimes:
    steps = np.arange(first, first + count, dtype="<i8")
    seconds = np.tile([0.01, 0.3, 0.5, 0.05, 0.12, 0.02], (count, 1)).astype("<f8")
    wall = np.full(count, 1.0, "<f8")
    return messages.StepTimes(
        phases=PHASES, step=steps.tobytes(), count=np.ones(count, "<u4").tobytes(),
        ended_at=(began + steps).astype("<f8").tobytes(), wall=wall.tobytes(), own=(wall * 0.88).tobytes(),
        seconds=seconds.tobytes(), samples=np.full(count, 32, "<i8").tobytes(),
    )  # fmt: skip


def sample(rank: int, at: float) -> messages.ResourceSample:
    gpu = messages.GpuSample(
        index=rank % 8, uuid=f"GPU-{rank:08d}", name="Accelerator", util=0.9, util_peak=0.99, memory_used=60 << 30,
        memory_peak=65 << 30, memory_total=80 << 30, temperature=61.0, power=400.0, power_limit=700.0, ours=True,
    )  # fmt: skip
    host = None
    if rank % 8 == 0:
        host = messages.HostSample(
            cpu=0.4, cpu_count=96, memory_used=200 << 30, memory_total=1 << 40, network_sent=1e9, network_received=1e9,
            disk_read=1e8, disk_written=1e7, disk_used=1 << 40, disk_total=4 << 40,
        )  # fmt: skip
    mine = messages.RankSample(cpu=0.02, memory=8 << 30, gpu=gpu, torch_allocated=50 << 30)
    return messages.ResourceSample(time=at, interval_seconds=2.0, host=host, rank=mine)


def hour(folder: Path, ranks: int, steps: int) -> dict[str, Any]:
    """Memory over the hour, and whether all of it arrived."""
    bench = Bench(folder, ranks)
    began, simulated = time.monotonic(), time.time() - steps
    looks: list[tuple[int, float]] = []
    try:
        for turn, first in enumerate(range(0, steps, EACH)):
            if time.monotonic() - began > MOST_S:
                break
            count = min(EACH, steps - first)
            values, times = points(first, count, simulated), step_times(first, count, simulated)
            for at, rank in enumerate(bench.ranks):
                rank.send(values)
                rank.send(times)
                if turn % SAMPLED == 0:
                    rank.send(sample(at, simulated + first))
                rank.beat(step=first + count, batches=first + count, phase="forward", step_seconds=1.0)
                if at % 64 == 63:
                    bench.until(lambda: has_room(bench), 60)
            looks.append((first + count, bench.memory_mb()))
            bench.until(lambda: bench.health()["points_in_memory"] <= IN_MEMORY, 60)
        bench.until(lambda: all(rank.acknowledged == rank.seq for rank in bench.ranks), 120)
        took, steps = time.monotonic() - began, looks[-1][0]
        return {
            "ranks": ranks, "steps": steps, "took_s": took, "speed": steps / took, "memory_mb": looks[:: max(1, len(looks) // 24)],
            "most_mb": max(size for _, size in looks), "at_end_mb": bench.memory_mb(),
            "grown_mb": grown([size for _, size in looks]), "cpu_s": bench.cpu_s(),
            "missing": ranks * steps * SERIES - bench.health()["values"],
        }  # fmt: skip
    finally:
        bench.close(is_clean=False)  # its end is no part of it


def grown(sizes: list[float]) -> float:
    """From the second quarter to the last one, by their medians: a segment on its way is no growth."""
    quarter = max(1, len(sizes) // 4)
    return float(np.median(sizes[-quarter:]) - np.median(sizes[quarter : 2 * quarter]))


def has_room(bench: Bench) -> bool:
    """Whether the slowest rank is not far behind."""
    return all(rank.seq - rank.acknowledged <= MOST_UNACKNOWLEDGED for rank in bench.ranks)


def figures(run: dict[str, Any]) -> list[Figure]:
    title = f"{run['ranks']:,} ranks × {SERIES} series × {run['steps']:,} steps: memory of the controller"
    note = (
        f"{run['ranks'] * run['steps'] * SERIES / 1e6:.1f} M values in {run['took_s']:.0f} s, {run['speed']:.0f} times as fast as an "
        f"hour at 1 Hz, {EACH} steps a message; {run['missing']:.0f} missing"
    )
    return [
        Figure(f"{title}, most", run["most_mb"], "MB", 500, note=note),
        Figure(f"{title}, grown in the second half", run["grown_mb"], "MB"),
        Figure(f"{title}, at the end", run["at_end_mb"], "MB"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=WIDE_RANKS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--dry", action="store_true", help="print, save nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trackside-hour-") as folder:
        run = hour(Path(folder), options.ranks, options.steps)
    if options.dry:
        print(json.dumps(run))
    else:
        save("wide_hour", "An hour of a large job", figures(run), raw=run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
