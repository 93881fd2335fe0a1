"""A rank whose wall clock is 20 s ahead, and goes back by an hour in the middle of an epoch. No torch, no collective."""

import sys
import time
from pathlib import Path

import trackside

offset_s = 20.0
true_time = time.time
time.time = lambda: true_time() + offset_s

mon = trackside.Monitor(epochs=2)
for epoch in mon.epochs():
    for step in mon.batches(range(50)):
        time.sleep(0.04)
        if (epoch, step) == (1, 25):
            offset_s = -3600.0
        mon.log({"loss": float(epoch * 50 + step)}, step=epoch * 50 + step)
while not Path(sys.argv[1]).exists():  # heartbeats measure the new offset
    time.sleep(0.02)
mon.finish()
