"""Logs `--points` values at `--hz` on every rank; rank 1 of the first generation kills itself in the middle. No torch.

Each process counts, in a file of its own in `--counts`, the calls of log() that have returned.
"""

import argparse
import mmap
import os
import signal
import time
from pathlib import Path

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("--points", type=int, default=300)
parser.add_argument("--hz", type=float, default=150.0)
parser.add_argument("--counts", type=Path, required=True)
options = parser.parse_args()
rank, generation = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
path = options.counts / f"{generation}-{rank}"
path.write_bytes(bytes(8))
with path.open("r+b") as file:
    count = mmap.mmap(file.fileno(), 8)

mon = trackside.Monitor(steps=options.points)
due = time.monotonic()
for step in range(options.points):
    mon.log({"loss": float(step)}, step=step)
    count[:8] = (step + 1).to_bytes(8, "little")
    if (rank, generation, step) == ("1", "0", options.points // 2):
        os.kill(os.getpid(), signal.SIGKILL)
    due = max(due + 1 / options.hz, time.monotonic())  # what a pause cost is not made up for, as in a training
    time.sleep(max(0.0, due - time.monotonic()))
mon.finish()
