"""Goes on from the last checkpoint, as a job that may be requeued does: rank 0 saves its step every 20, `stop` ends it well.

Every rank logs the loss of its step, about 100 steps a second; no torch, no collective. With `--resume`, as some scripts are
told, it does the same.
"""

import argparse
import os
import time
from pathlib import Path

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--resume", action="store_true")
folder: Path = parser.parse_args().folder
checkpoint, stop = folder / "checkpoint", folder / "stop"
rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0)

mon = trackside.Monitor(steps=1_000_000)
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
while not stop.exists():
    mon.log({"loss": 1 / (1 + step)}, step=step)
    step += 1
    if rank == 0 and step % 20 == 0:
        part = folder / f"checkpoint.{os.getpid()}"
        part.write_text(str(max(0, step - 20)))
        part.replace(checkpoint)
    time.sleep(0.01)
mon.finish()
