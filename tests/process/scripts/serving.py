"""A script that asks for pages of its own, twice the same and twice another one, and trains until `stop` is there."""

import argparse
import os
import time
from pathlib import Path

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("stop", type=Path)
parser.add_argument("port", type=int)
options = parser.parse_args()

mon = trackside.Monitor()
mon.serve()
step = 0
while not options.stop.exists():
    if step == 50 and os.environ["RANK"] == "1":
        for _ in range(2):
            mon.serve(options.port)
            mon.serve(0)
    mon.log({"loss": 1.0}, step=step)
    step += 1
    time.sleep(0.02)
mon.finish()
