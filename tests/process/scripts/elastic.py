"""Trains on from the last checkpoint, as an elastic job does: a file of rank 0's, about two seconds old, says the step to go
on from; `stop` ends it.

Every rank logs the loss of its step, about 50 steps a second; no torch, no collective.
"""

import argparse
import os
import time
from pathlib import Path

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
folder: Path = parser.parse_args().folder
checkpoint, stop = folder / "checkpoint", folder / "stop"
rank = int(os.environ["RANK"])

mon = trackside.Monitor()
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("from step", step, "torch counts", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
while not stop.exists():
    mon.log({"loss": 1 / (1 + step)}, step=step)
    step += 1
    if rank == 0:
        part = folder / f"checkpoint.{os.getpid()}"
        part.write_text(str(max(0, step - 100)))
        part.replace(checkpoint)
    time.sleep(0.02)
mon.finish()
