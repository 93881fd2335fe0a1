"""A process that journals one frame after another, says which ones are safe, and is killed in the middle."""

import sys
import threading
import time
from pathlib import Path

from tests.unit.store.station import Station
from trackside.store import RunFolder


def main(path: str, first: int) -> None:
    folder = RunFolder(Path(path))
    station = Station(folder) if first == 0 else Station.resume(folder)
    station.greet(0)
    station.seqs[0] = max(station.reader.highest().values(), default=0)
    print("ready", flush=True)
    said = threading.Thread(target=say, args=(station,), daemon=True)
    said.start()
    for step in range(station.seqs[0], station.seqs[0] + 1_000_000):
        station.log(0, step, [{"loss": float(step), "lr": float(step)}])
        if step % 400 == 399:
            station.checkpoint()
        time.sleep(0.0005)


def say(station: Station) -> None:
    last = 0
    while True:
        now = max(station.durable.values(), default=0)
        if now != last:
            print(now, flush=True)
            last = now
        time.sleep(0.001)


main(sys.argv[1], int(sys.argv[2]))
