"""An hour of training in twelve minutes: what every process of a job holds, minute by minute, and whether it levels off.

Eight ranks log eight metrics a step at 50 Hz, 36,000 steps each, in epochs of 250 steps: what a job of ten steps a second does in
an hour. A page is open all the time. `--seconds` makes it shorter, `--json` prints what was seen instead of saving it.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
from record import Figure, save

RANKS = 8
SECONDS = 720.0
WARM_UP = 0.5
"""Part of the time in which windows, caches and buffers fill to their bounds; lines are fitted over the rest."""
LOOK_S = 1.0
TRAIN = """
import random, sys, time
import trackside

mon = trackside.Monitor(epochs=10_000, config={"lr": 0.1})
until = time.monotonic() + float(sys.argv[1])
random.seed(0)
for epoch in mon.epochs():
    for batch in mon.batches([[0] * 32] * 250):
        with mon.phase("work"):
            time.sleep(0.02)
        mon.log({f"train/m{n}": random.random() for n in range(8)})
    mon.log({"val/acc": random.random()})
    if epoch % 2 == 0:
        mon.event("checkpoint", f"of epoch {epoch}")
    if time.monotonic() > until:
        break
mon.finish()
"""


class Watched:
    """What one process held, look by look."""

    def __init__(self, name: str, process: psutil.Process) -> None:
        self.name, self._process = name, process
        self.looks: list[tuple[float, int, int, int]] = []

    def look(self, at: float) -> None:
        with self._process.oneshot():
            memory = self._process.memory_info().rss
            self.looks.append((at, memory, self._process.num_threads(), self._process.num_fds()))

    def summary(self) -> dict:
        """Each minute's mean; growth by a straight line over the time after the warm-up; threads and files."""
        at, rss, threads, files = np.array(self.looks, float).T
        at -= at[0]
        late = at >= WARM_UP * at[-1]
        slope = np.polyfit(at[late], rss[late], 1)[0]
        last = at >= 0.75 * at[-1]
        before = late & ~last
        return {
            "process": self.name,
            "minutes_mb": [mb(rss[at // 60 == minute].mean()) for minute in np.unique(at // 60)],
            "rss_mb": mb(rss[late].mean()),
            "most_mb": mb(rss.max()),
            "growth_mb": mb(slope * (at[-1] - at[late][0])),
            "quarter_growth_mb": mb(np.median(rss[last]) - np.median(rss[before])),
            "seconds": round(float(at[-1])),
            "threads": [int(threads[late][0]), int(threads[late].max())],
            "files": [int(files[late][0]), int(files[late].max())],
        }


def mb(size: float) -> float:
    return round(float(size) / 1e6, 2)


def soak(seconds: float) -> dict:
    """Run it; what each process held, and the controller's counters at the end."""
    with tempfile.TemporaryDirectory(prefix="trackside-soak-") as folder:
        (Path(folder) / "train.py").write_text(TRAIN)
        command = [sys.executable, "-m", "trackside", "run", "--nproc-per-node", str(RANKS), "--port", "0"]
        job = subprocess.Popen(
            [*command, "train.py", str(seconds)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said: list[str] = []
        threading.Thread(target=lambda: said.extend(job.stderr), daemon=True).start()
        try:
            url = wait_for(lambda: re.search(r"http://localhost:\d+", "".join(said)), 120).group()
            page = threading.Thread(target=read_stream, args=(url,), daemon=True)
            page.start()
            wait_for(lambda: sum(rank["state"] == "alive" for rank in get(url, "ranks")) == RANKS, 120)
            watched = processes(job.pid, get(url, "ranks"))
            ends = time.monotonic() + seconds - 10
            while time.monotonic() < ends:
                for each in watched:
                    each.look(time.monotonic())
                time.sleep(LOOK_S)
            health = json.loads(urllib.request.urlopen(f"{url}/healthz", timeout=20).read())["counters"]
            code = job.wait(180)
            page.join(10)
        finally:
            job.kill()
    if code:
        raise SystemExit(f"the job ended with {code}:\n{''.join(said)}")
    return {"processes": [each.summary() for each in watched], "health": health, "page_ended": not page.is_alive()}


def processes(launcher: int, ranks: list[dict]) -> list[Watched]:
    """Of a job, those that are ours: its controller first."""
    job = psutil.Process(launcher)
    controller = next(child for child in job.children() if "controller" in child.cmdline())
    found = [Watched("controller", controller), Watched("launcher", job)]
    return found + [Watched(f"rank {rank['rank']}", psutil.Process(rank["pid"])) for rank in ranks]


def get(url: str, what: str) -> list[dict]:
    return json.loads(urllib.request.urlopen(f"{url}/api/v1/{what}", timeout=20).read())


def read_stream(url: str) -> None:
    """As an open page does, until the run is over."""
    with urllib.request.urlopen(f"{url}/api/v1/stream?path=root", timeout=60) as stream:
        for line in stream:
            if line.startswith(b"event: complete"):
                return


def wait_for(look, seconds: float):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    raise SystemExit(f"the job did not begin within {seconds:g} s")


def main(seconds: float) -> None:
    found = soak(seconds)
    controller, launcher, *ranks = found["processes"]
    over = f"line over the last {controller['seconds'] * WARM_UP / 60:.1f} of {controller['seconds'] / 60:.1f} min"
    course = ", ".join(f"{value:.0f}" for value in controller["minutes_mb"])
    rank = max(ranks, key=lambda row: row["growth_mb"])
    threads = max(row["threads"][1] - row["threads"][0] for row in found["processes"])
    files = max(row["files"][1] - row["files"][0] for row in found["processes"])
    figures = [
        Figure(
            "an hour of 8 ranks: controller, grown after the warm-up",
            controller["growth_mb"],
            "MB",
            budget=8,
            note=over,
        ),
        Figure("controller, last quarter against the one before", controller["quarter_growth_mb"], "MB", budget=4),
        Figure("controller, memory", controller["rss_mb"], "MB", note=f"each minute's mean: {course}"),
        Figure("rank, grown after the warm-up, most of 8", rank["growth_mb"], "MB", budget=1, note=over),
        Figure("rank, memory", rank["rss_mb"], "MB"),
        Figure(
            "launcher, grown after the warm-up",
            launcher["growth_mb"],
            "MB",
            budget=1,
            note=f"of {launcher['rss_mb']:.0f}",
        ),
        Figure("threads more than at the beginning, most of all processes", threads, "", budget=2),
        Figure("descriptors more than at the beginning, most of all processes", files, "", budget=6),
    ]
    save("soak", "An hour of training, compressed", figures, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(soak(options.seconds)))
    else:
        main(options.seconds)
