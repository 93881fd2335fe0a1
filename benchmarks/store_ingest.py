"""What the store costs: values a second in, bytes a point on disk, memory of a wide job, the end of a long one.

Each case is a fresh process: the store alone, without sockets and run state, frames and values made beforehand.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np
from record import Figure, save

from trackside.store import RunFolder, StoreWriter
from trackside.wire import codec, messages
from trackside.wire.columns import PointBatch

LIMIT_S = 600.0
WIDE = {"ranks": 1024, "series": 20, "steps": 900}
SPEED = {"ranks": 64, "series": 20, "steps": 4000}
MOST_WAITING_BYTES = 32 * 1024 * 1024
MOST_HOT_ROWS = 2_500_000
"""The writer is fed no faster than this; it would drop, and count, beyond its own bounds."""


class Feed:
    """One step of every rank at a time: its frames for the journal, its values as one batch."""

    def __init__(self, ranks: int, series: int) -> None:
        self.ranks, self.series = ranks, series
        self.random = np.random.default_rng(0)
        self.metric = np.tile(np.arange(series, dtype=np.int32), ranks)
        self.rank = np.repeat(np.arange(ranks, dtype=np.int32), series)
        self.zeros = np.zeros(ranks * series, np.int32)
        self.ids = np.arange(series, dtype="<u4").tobytes()
        self.width = np.array([series], "<u4").tobytes()
        self.sessions = [b"s" + rank.to_bytes(15, "big") for rank in range(ranks)]

    def batch(self, step: int, interval_s: float) -> PointBatch:
        count = self.ranks * self.series
        clock = 1.7e9 + step * interval_s + self.random.random(self.ranks) * 0.01
        value = (1 / (1 + step * 0.01) + self.random.normal(0, 0.05, count)).astype(np.float32)
        return PointBatch(
            metric=self.metric,
            rank=self.rank,
            generation=self.zeros,
            epoch=np.full(count, step // 1000, np.int32),
            step=np.full(count, step, np.int64),
            time=np.repeat(clock, self.series),
            value=value.astype(np.float64),
        )

    def frame(self, batch: PointBatch, rank: int, seq: int) -> bytes:
        rows = slice(rank * self.series, (rank + 1) * self.series)
        message = messages.Points(
            time=batch.time[rows][:1].tobytes(),
            step=batch.step[rows][:1].tobytes(),
            epoch=batch.epoch[rows][:1].tobytes(),
            width=self.width,
            series=self.ids,
            value=batch.value[rows].tobytes(),
        )
        return codec.encode(message, seq)


def open_writer(folder: RunFolder) -> StoreWriter:
    writer = StoreWriter(
        folder,
        on_durable=lambda _marks: None,
        on_status=lambda _status: None,
        on_checkpoint_wanted=lambda: writer.checkpoint(b"state"),
    )
    return writer


def feed(case: dict) -> dict:
    """Feed a writer as fast as it takes, within its bounds."""
    ranks, series, steps = case["ranks"], case["series"], case["steps"]
    source = Feed(ranks, series)
    folder = RunFolder.create(case["folder"], "bench", time.time())
    writer = open_writer(folder)
    for metric in range(series):
        writer.define_metric(metric, f"train/metric_{metric}")
    for rank in range(ranks):
        writer.define_rank(rank, 0, f"root/node-{rank // 8}/rank{rank}")
    bare_mb = memory_mb()
    most = max(50, 1_000_000 // (ranks * series))  # values come again after so many steps
    prepared = [(batch, frames_of(source, batch, step + 1)) for step, batch in made(source, min(steps, most))]
    own_mb = memory_mb() - bare_mb
    writer.start()
    took, began, cpu = [], time.perf_counter(), time.process_time()
    for step in range(steps):
        batch, frames = prepared[step % len(prepared)]
        calling = time.perf_counter()
        for session, frame in zip(source.sessions, frames, strict=True):
            writer.journal(session, step + 1, 1.7e9, frame)
        writer.points(moved(batch, step))
        took.append(time.perf_counter() - calling)
        wait_for_room(writer)
    wait_for_room(writer, 0)
    fed, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ending = time.perf_counter()
    if not writer.close(clean=True, deadline_seconds=120):
        raise RuntimeError(f"the store did not end: {writer.status()}")
    points = ranks * series * steps
    return {
        "points": points,
        "fed_s": fed,
        "cpu_s": cpu,
        "call_us": median(took) / ranks * 1e6,
        "peak_mb": peak_mb - own_mb,
        "peak_with_end_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - own_mb,
        "prepared_mb": own_mb,
        "end_s": time.perf_counter() - ending,
        "bytes_a_point": stored(folder) / points,
        "files": len(folder.point_files()),
    }


def memory_mb() -> float:
    """What this process holds now, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def made(source: Feed, steps: int):
    for step in range(steps):
        yield step, source.batch(step, 1.0)


def frames_of(source: Feed, batch: PointBatch, seq: int) -> list[bytes]:
    return [source.frame(batch, rank, seq) for rank in range(source.ranks)]


def moved(batch: PointBatch, step: int) -> PointBatch:
    """The same values at another step."""
    count = len(batch)
    return PointBatch(
        metric=batch.metric,
        rank=batch.rank,
        generation=batch.generation,
        epoch=np.full(count, step // 1000, np.int32),
        step=np.full(count, step, np.int64),
        time=batch.time + step,
        value=batch.value,
    )


def wait_for_room(writer: StoreWriter, most: int = MOST_WAITING_BYTES) -> None:
    while writer.status().waiting_bytes > most or writer.table.hot_rows > MOST_HOT_ROWS:
        time.sleep(0.001)


def stored(folder: RunFolder) -> int:
    return sum(path.stat().st_size for path in folder.points.iterdir())


def tight_loop(case: dict) -> dict:
    """i * 1e-4 + j in five series from one rank, as the peers' harness logs them."""
    steps, series = case["steps"], 5
    folder = RunFolder.create(case["folder"], "bench", time.time())
    writer = open_writer(folder)
    for metric in range(series):
        writer.define_metric(metric, f"m{metric:03d}")
    writer.define_rank(0, 0, "root/node/rank0")
    writer.start()
    step, metric = (axis.ravel() for axis in np.mgrid[:steps, :series])
    clock = 1.7e9 + np.cumsum(np.random.default_rng(0).choice([1.2e-5, 1.5e-5, 3e-5], steps))
    count = step.size
    writer.points(
        PointBatch(
            metric=metric.astype(np.int32),
            rank=np.zeros(count, np.int32),
            generation=np.zeros(count, np.int32),
            epoch=np.full(count, -1, np.int32),
            step=step,
            time=np.repeat(clock, series),
            value=step * 1e-4 + metric,
        )
    )
    writer.close(clean=True, deadline_seconds=60)
    return {"bytes_a_point": stored(folder) / count}


CASES = {"feed": feed, "tight_loop": tight_loop}


def measure(name: str, **case: object) -> dict:
    """Run one case in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        command = [sys.executable, __file__, "--case", json.dumps({"name": name, "folder": folder, **case})]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        case = json.loads(options.case)
        print(json.dumps(CASES[case["name"]](case)))
        return 0
    speed, wide = measure("feed", **SPEED), measure("feed", **WIDE)
    job = measure("feed", ranks=8, series=20, steps=6250)
    tight = measure("tight_loop", steps=100_000)
    peers = "43 (TensorBoard), 89 (wandb), 97 (trackio), 160 (aim)"
    figures = [
        Figure(
            "into journal and segments, 64 ranks × 20 series",
            speed["points"] / speed["fed_s"] / 1e6,
            "M values/s",
            1.0,
            "least",
            note="wall time, both threads, sorting and compression included",
        ),
        Figure("the same, CPU", speed["cpu_s"] / speed["points"] * 1e6, "µs/value"),
        Figure("a caller waits for one frame and its values", speed["call_us"], "µs"),
        Figure("stored, 8 ranks × 20 float32 losses", job["bytes_a_point"], "bytes/point", 4.0, peer=peers),
        Figure("stored, i × 1e-4 + j in 5 series", tight["bytes_a_point"], "bytes/point", 4.0, peer=peers),
        Figure(
            "peak memory, 1,024 ranks × 20 series",
            wide["peak_mb"],
            "MB",
            500.0,
            note=f"{wide['points'] / 1e6:.0f} M values as fast as they are taken; imports included, frames made beforehand left out",
        ),
        Figure("the same with its clean end", wide["peak_with_end_mb"], "MB", 500.0),
        Figure("clean end after 18 M values", wide["end_s"], "s"),
    ]
    save("store_ingest", "The store takes in", figures, {"speed": speed, "wide": wide, "job": job, "tight": tight})
    return 0


if __name__ == "__main__":
    sys.exit(main())
