"""Logs `--points` values at `--hz` on every rank; no torch, no collective. Prints one line at its end."""

import argparse
import os
import time

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("--points", type=int, default=300)
parser.add_argument("--hz", type=float, default=100)
parser.add_argument("--exit", type=int, default=0)
options = parser.parse_args()

mon = trackside.Monitor(steps=options.points)
due = time.monotonic()
for step in range(options.points):
    mon.log({"loss": 1 / (step + 1), "rank value": float(os.environ.get("RANK", "0"))}, step=step)
    due += 1 / options.hz
    time.sleep(max(0, due - time.monotonic()))
print("accepted", options.points, flush=True)
mon.finish()
raise SystemExit(options.exit)
