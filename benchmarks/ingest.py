"""What the controller takes: values a second on one core with everything on, and what a large job costs it.

The real controller runs on core 0 alone, with journal, segments, run state, report and one open page stream; ranks that
speak the real wire run on the other cores. Each burst is timed from its first frame to the last acknowledgement, so what
is counted is durable.
"""

import argparse
import contextlib
import http.client
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import zmq
from record import HERE, Figure, save

sys.path.insert(0, str(HERE.parent))
from tests.process.wire_client import ControllerUnderTest, WireRank, said
from trackside.wire import messages

CORE = "0"
SERIES = 20
BURST_RANKS = 8
BURST_CALLS = 100
BURST_FRAMES = 2000
WIDE_RANKS = 1024
WIDE_SECONDS = 30.0
REPEATS = 3


def columns(calls: int, step: int, first: bool) -> messages.Points:
    """A frame of `calls` calls with every series in each."""
    return messages.Points(
        defs=[messages.SeriesDef(id=n, name=f"train/metric{n}") for n in range(SERIES)] if first else [],
        time=np.full(calls, time.time(), "<f8").tobytes(),
        step=np.arange(step, step + calls, dtype="<i8").tobytes(),
        epoch=np.full(calls, -1, "<i4").tobytes(),
        width=np.full(calls, SERIES, "<u4").tobytes(),
        series=np.tile(np.arange(SERIES, dtype="<u4"), calls).tobytes(),
        value=np.random.default_rng(step).normal(size=calls * SERIES).astype("<f8").tobytes(),
    )


class Watcher(threading.Thread):
    """One open page: reads the stream as fast as it comes."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.bytes = 0
        self.stopped = False

    def run(self) -> None:
        gone = (OSError, http.client.HTTPException)  # a controller that was killed
        with contextlib.suppress(*gone), urllib.request.urlopen(f"{self._url}api/v1/stream", timeout=60) as stream:
            while not self.stopped and (chunk := stream.read1(65536)):
                self.bytes += len(chunk)


class Bench:
    """A controller on one core with connected ranks and one page."""

    def __init__(self, folder: Path, ranks: int) -> None:
        others = sorted(os.sched_getaffinity(0) - {int(CORE)})
        if others:
            os.sched_setaffinity(0, others)
        self.controller = ControllerUnderTest(folder, prefix=("taskset", "-c", CORE))
        self.process = psutil.Process(self.controller.process.pid)
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, ranks + 100)
        self.ranks = [
            WireRank(self.context, self.controller.address, rank, ranks, host=f"node{rank // 8}")
            for rank in range(ranks)
        ]
        for rank in self.ranks:
            rank.hello()
        self.until(lambda: all(rank.welcome for rank in self.ranks), 120)
        self.ranks[0].send(messages.PortWish(port=0))
        self.until(lambda: any("://" in m.line for m in said(self.ranks[0], messages.Say)), 20)
        line = next(m.line for m in said(self.ranks[0], messages.Say) if "://" in m.line)
        self.url = line.split()[1] + "/"
        self.watcher = Watcher(self.url)
        self.watcher.start()

    def until(self, look, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not look():
            if time.monotonic() > deadline:
                raise TimeoutError(look)
            self.pump()
            time.sleep(0.005)

    def pump(self) -> None:
        for rank in self.ranks:
            rank.pump()

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system

    def memory_mb(self) -> float:
        return self.process.memory_info().rss / 1e6

    def health(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}healthz", timeout=30) as answer:
            return json.loads(answer.read())["counters"]

    def close(self, *, is_clean: bool = True) -> None:
        self.watcher.stopped = True
        for rank in self.ranks:
            rank.close()
        if is_clean:
            self.controller.process.terminate()
            self.controller.wait(120)
        self.controller.close()
        self.context.destroy(linger=0)


def burst(folder: Path) -> dict[str, float]:
    """Values a second, durable, on one core."""
    bench = Bench(folder, BURST_RANKS)
    per_rank = BURST_FRAMES // BURST_RANKS
    frames = [columns(BURST_CALLS, n * BURST_CALLS, n == 0) for n in range(per_rank)]
    began, cpu = time.monotonic(), bench.cpu_s()
    for message in frames:
        for rank in bench.ranks:
            rank.send(message)
            while rank.seq - rank.acknowledged > 64:
                bench.pump()
                time.sleep(0.001)
    bench.until(lambda: all(rank.acknowledged == rank.seq for rank in bench.ranks), 120)
    seconds = time.monotonic() - began
    values = per_rank * BURST_RANKS * BURST_CALLS * SERIES
    time.sleep(1.0)
    health = bench.health()
    result = {
        "values": values,
        "seconds": seconds,
        "values_per_s": values / seconds,
        "cpu_s": bench.cpu_s() - cpu,
        "memory_mb": bench.memory_mb(),
        "missing": values - health["values"],
        "stream_mb": bench.watcher.bytes / 1e6,
    }
    bench.close()
    return result


def wide(folder: Path, ranks: int, seconds: float) -> dict[str, float]:
    """CPU share and memory of a large job: each rank one call a second with every series, and a heartbeat."""
    bench = Bench(folder, ranks)
    frames = {n: columns(1, n, n == 0) for n in range(int(seconds) + 3)}
    for rank in bench.ranks:
        rank.send(frames[0])
    bench.until(lambda: all(rank.acknowledged == rank.seq for rank in bench.ranks), 60)
    cpu, began = bench.cpu_s(), time.monotonic()
    for n in range(1, int(seconds) + 1):
        for at, rank in enumerate(bench.ranks):
            rank.send(frames[n])
            rank.beat(step=n, batches=n, phase="step", phases={"data": 0.1 * n, "step": 0.4 * n}, step_seconds=0.5)
            if at % 64 == 63:
                due = began + n - 1 + at / ranks
                while time.monotonic() < due:
                    time.sleep(0.002)
        bench.pump()
        while time.monotonic() < began + n:
            time.sleep(0.005)
    spent, took = bench.cpu_s() - cpu, time.monotonic() - began
    result = {
        "ranks": ranks,
        "seconds": took,
        "cpu_share": spent / took,
        "memory_mb": bench.memory_mb(),
        "stream_mb": bench.watcher.bytes / 1e6,
        "missing": ranks * SERIES * (int(seconds) + 1) - bench.health()["values"],
    }
    bench.close()
    return result


def in_folder(measure: Callable[[Path], dict[str, float]]) -> dict[str, float]:
    """Measure in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder))
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=WIDE_RANKS)
    parser.add_argument("--seconds", type=float, default=WIDE_SECONDS)
    parser.add_argument("--only", choices=("burst", "wide"))
    parser.add_argument("--dry", action="store_true", help="print, do not save")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    if options.only != "wide":
        found["burst"] = [in_folder(burst) for _ in range(REPEATS)]
    if options.only != "burst":
        found["wide"] = [in_folder(lambda folder: wide(folder, options.ranks, options.seconds))]
    if options.dry or len(found) < 2:
        return
    fast, large = max(found["burst"], key=lambda run: run["values_per_s"]), found["wide"][0]
    save(
        "ingest",
        "Controller",
        [
            Figure(
                "ingest with everything on, one core",
                fast["values"] / fast["cpu_s"] / 1e6,
                "M values/s",
                budget=1.0,
                bound="least",
                note=f"{BURST_RANKS} ranks, {SERIES} series, until durable, one open page; by the second of that core's "
                f"own time, since others share it: {fast['values_per_s'] / 1e6:.2f} M by the clock, best of {REPEATS}",
            ),
            Figure(
                f"{large['ranks']:,} ranks x {SERIES} series x 1 Hz",
                large["cpu_share"] * 100,
                "% of a core",
                budget=30,
                note=f"with heartbeats and one open page; {large['missing']:.0f} missing",
            ),
            Figure(
                f"memory with {large['ranks']:,} ranks",
                large["memory_mb"],
                "MB",
                budget=500,
                note="after half a minute",
            ),
        ],
        raw=found,
    )


if __name__ == "__main__":
    main()
