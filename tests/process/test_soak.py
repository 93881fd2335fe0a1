"""Half an hour of training of eight ranks in four minutes: nothing grows, in no process."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.process.job import TRACKSIDE, Job, wait_for
from tests.process.stream import Stream

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("leak_check")]

TRAIN = """
import random, sys, time
import trackside

mon = trackside.Monitor(epochs=10_000, config={"lr": 0.1})
until = time.monotonic() + float(sys.argv[1])
random.seed(0)
for epoch in mon.epochs():
    for batch in mon.batches([[0] * 32] * 25):
        with mon.phase("work"):
            time.sleep(0.02)
        mon.log({f"train/m{n}": random.random() for n in range(8)})
    mon.log({"val/acc": random.random()})
    if epoch % 20 == 0:
        mon.event("checkpoint", f"of epoch {epoch}")
    if time.monotonic() > until:
        break
mon.finish()
"""
SECONDS = float(os.environ.get("SOAK_S", "240"))
WARM_UP = 0.5
"""Part of the time in which buffers, windows and caches fill; the fit is over the rest."""
MOST_GROWTH_BYTES = 48e6
"""Over the fitted half, of any process; the controller's hot rows rise and fall by a journal file's worth."""


class Watched:
    """What one process held, look by look."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self._process = name, psutil.Process(pid)
        self.looks: list[tuple[float, int, int, int]] = []

    def look(self, at: float) -> None:
        process = self._process
        with process.oneshot():
            self.looks.append((at, process.memory_info().rss, process.num_threads(), process.num_fds()))

    def summary(self) -> dict[str, float | str]:
        """Growth over the fitted part by a straight line, MB, and what else it held at its beginning and end."""
        at, rss, threads, files = np.array(self.looks, float).T
        late = at >= at[0] + WARM_UP * (at[-1] - at[0])
        slope = np.polyfit(at[late], rss[late], 1)[0]
        return {
            "process": self.name,
            "rss_mb": round(rss[late].mean() / 1e6, 1),
            "growth_mb": round(slope * (at[late][-1] - at[late][0]) / 1e6, 2),
            "threads_from": int(threads[late][0]),
            "threads_most": int(threads[late].max()),
            "files_from": int(files[late][0]),
            "files_most": int(files[late].max()),
        }


def test_eight_ranks_for_a_while_hold_no_more_at_the_end_than_in_the_middle(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    command = [*TRACKSIDE, "run", "--nproc-per-node", "8", "--port", "0", "train.py", str(SECONDS)]
    job = Job(command, tmp_path, TMPDIR=str(tmp_path), OMP_NUM_THREADS="1")
    try:
        page = Stream(job.url(90).rstrip("/") + "/")
        wait_for(lambda: sum(r["state"] == "alive" for r in job.get("api/v1/ranks")) == 8, 90, "eight ranks")
        pids = {entry["rank"]: entry["pid"] for entry in job.get("api/v1/ranks")}
        watched = [Watched("controller", job.controller_pid()), Watched("launcher", job.process.pid)]
        watched += [Watched(f"rank {rank}", pid) for rank, pid in sorted(pids.items())]
        ends = time.monotonic() + SECONDS - 10
        while time.monotonic() < ends:
            for each in watched:
                each.look(time.monotonic())
            time.sleep(1.0)
        found = [each.summary() for each in watched]
        print("\n".join(json.dumps(line) for line in found), file=sys.stderr)
        health = job.get("healthz")["counters"]
        print(json.dumps(health), file=sys.stderr)
        assert not page.ended.is_set()
        assert len(page.curve("train/m0")) > SECONDS
        page.close()
        assert job.wait(120) == 0, job.stderr
    finally:
        job.close()
    for line in found:
        assert line["growth_mb"] < MOST_GROWTH_BYTES / 1e6, line
        assert line["threads_most"] <= line["threads_from"] + 2, line
        assert line["files_most"] <= line["files_from"] + 6, line
    losses = ("values_over_name_limit", "frames_skipped", "frames_malformed", "stream_failures")
    assert {name: health[name] for name in losses} == dict.fromkeys(losses, 0)
