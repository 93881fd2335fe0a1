"""A rank whose wall clock is 20 s ahead, and goes back by an hour in the middle of an epoch. No torch, no collective."""

import time

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
time.sleep(3)  # heartbeats measure the new offset
mon.finish()
