"""Logs every odd value under every odd name, and waits for the file `go` before it finishes."""

import time
from pathlib import Path

from odd_values import NAMES, STEPS, UNSENDABLE, VALUES

import trackside

mon = trackside.Monitor(epochs=1, name="größe 🦊")
mon.serve(0)
names = [*NAMES, *UNSENDABLE]
with mon.epoch(0):
    for step, value in enumerate(VALUES):
        mon.log(dict.fromkeys(names, value), step=step)
    for step in STEPS:
        mon.log({"odd step": 1.0}, step=step)
    mon.log_epoch(0, {**dict.fromkeys(names, 0.1), "bad": float("nan"), "worse": float("inf")})
mon.event("größe 🦊", "<script>")
mon.set_metadata({"größe 🦊": "\ud800"})
deadline = time.monotonic() + 120
while not Path("go").exists() and time.monotonic() < deadline:
    time.sleep(0.02)
mon.export_csv("epochs.csv")
mon.write_log("epochs.log")
mon.finish()
print("done")
