"""Prints on both streams and ends as told; no torch, no Monitor. `--rank N` alone does what the other options say."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=1)
parser.add_argument("--exit", type=int, default=0)
parser.add_argument("--signal", type=int, default=0)
parser.add_argument("--after", type=float, default=0.2)
parser.add_argument("--until", type=Path, help="a file; end once it exists")
parser.add_argument("--others-stay", action="store_true")
parser.add_argument("--until-generation", type=int, default=None)
options = parser.parse_args()

rank = int(os.environ["RANK"])
print("out", rank, end="")
print(" of", os.environ["WORLD_SIZE"])
print("err", rank, file=sys.stderr)
print("pid", os.getpid())
time.sleep(options.after)
while options.until and not options.until.exists():
    time.sleep(0.02)
over = (
    options.until_generation is not None and int(os.environ["TORCHELASTIC_RESTART_COUNT"]) >= options.until_generation
)
if rank == options.rank and not over:
    print("last words", end="")
    if options.signal:
        os.kill(os.getpid(), options.signal)
    sys.exit(options.exit)
if options.others_stay:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(60)
