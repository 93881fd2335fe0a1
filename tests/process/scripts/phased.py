"""Trains by hand at 25 batches a second until `stop` is there: every step has its phases. No torch, no collective."""

import argparse
import os
import time
from pathlib import Path

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("stop", type=Path)
parser.add_argument(
    "--first", type=int, default=None, help="rank that is done at once, and stays for five seconds more"
)
options = parser.parse_args()

mon = trackside.Monitor()
if os.environ["RANK"] == str(options.first):
    mon.log({"loss": 1.0}, step=0)
    mon.finish()
    time.sleep(5)
    raise SystemExit


def endless():
    step = 0
    while not options.stop.exists():
        yield step
        step += 1


for step in mon.batches(endless()):
    time.sleep(0.04)
    mon.log({"loss": 1 / (1 + step)}, step=step)
mon.finish()
