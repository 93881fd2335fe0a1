"""One rank on the real wire that knows no measure: `flood.py ADDRESS KIND SECONDS`; it ends with a line of what it sent."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.process.wire_client import WireRank, points
from trackside.wire import messages
from trackside.wire.address import parse_address

RANK, WORLD = 7, 8
UNSENT_BYTES = 8 * 1024 * 1024
"""What may wait for its acknowledgement; beyond, a rank of ours would hold back likewise."""


def values(_: WireRank) -> Iterator[messages.Message]:
    """A million points a second and more: frames of 64,000 values of 20 metrics."""
    names = {n: f"flood/{n}" for n in range(20)}
    calls = 3200
    series = np.tile(np.arange(20, dtype="<u4"), calls).tobytes()
    width = np.full(calls, 20, "<u4").tobytes()
    value = np.random.default_rng(0).random(20 * calls).astype("<f8").tobytes()
    defs = [messages.SeriesDef(id=n, name=name) for n, name in names.items()]
    step = 0
    while True:
        yield messages.Points(
            defs=defs,
            time=np.full(calls, time.time(), "<f8").tobytes(),
            step=np.arange(step, step + calls, dtype="<i8").tobytes(),
            epoch=np.full(calls, -1, "<i4").tobytes(),
            width=width,
            series=series,
            value=value,
        )
        defs, step = [], step + calls


def names(_: WireRank) -> Iterator[messages.Message]:
    """Every value has a name of its own."""
    for first in range(0, 60_000, 1000):
        fresh = {n: f"name/{n}" for n in range(first, first + 1000)}
        yield points([dict.fromkeys(fresh, 1.0)], step=first, names=fresh)


def long_names(_: WireRank) -> Iterator[messages.Message]:
    """Names of 100 kB, and ones that are just not refused by themselves."""
    for number in range(2000):
        length = 100_000 if number % 2 else 60_000
        yield points([{number: 1.0}], step=number, names={number: f"{number}-".ljust(length, "x")})


def metadata(_: WireRank) -> Iterator[messages.Message]:
    """As much as a message holds, again and again."""
    for number in range(12):
        yield messages.SetMetadata(text=json.dumps({"number": number, "blob": ["x" * 1000] * 15_000}))
        yield messages.SetPlan(config=json.dumps({str(key): key for key in range(400_000)}))


def epochs(_: WireRank) -> Iterator[messages.Message]:
    for number in range(10_000):
        yield messages.EpochReport(epoch=number, metrics={"loss": 1.0}, seconds=0.001, batches=1)


def wide_epochs(_: WireRank) -> Iterator[messages.Message]:
    """Epochs with 20,000 metrics of names of their own."""
    for number in range(100):
        yield messages.EpochReport(epoch=20_000 + number, metrics={f"wide/{number}/{n}": 1.0 for n in range(20_000)})


def events(_: WireRank) -> Iterator[messages.Message]:
    for number in range(10_000):
        yield messages.UserEvent(time=time.time(), title=f"event {number}", text="y" * 500, level="warn")


def notices(_: WireRank) -> Iterator[messages.Message]:
    for number in range(10_000):
        yield messages.Notice(time=time.time(), about=f"kind {number}", text="z" * 500)


def phases(rank: WireRank) -> Iterator[messages.Message]:
    """Heartbeats with 50,000 phases, and steps with any number of names for them."""
    for number in range(40):
        yield messages.Heartbeat(
            sent_at=time.time(),
            uptime_seconds=float(number),
            batches=number,
            phases={f"phase {number} {n}": float(number) for n in range(50_000)},
            phase="p" * 100_000,
        )


def sessions(rank: WireRank) -> Iterator[messages.Message]:
    """Hello again and again on one connection, and always as somebody new on others."""
    for number in range(300):
        rank.hello()
        other = WireRank(rank._context, rank.address, RANK, WORLD, pid=rank.pid)
        other.hello()
        yield messages.Heartbeat(sent_at=time.time(), uptime_seconds=float(number))
        if number % 3:
            other.send(messages.Goodbye(time=time.time()))
        deadline = time.monotonic() + 5
        while not other.pump() and time.monotonic() < deadline:
            time.sleep(0.001)
        other.close()


def noise(rank: WireRank) -> Iterator[messages.Message]:
    """What is no message at all, and what is one of another kind."""
    for number in range(2000):
        rank.send_raw(bytes([number % 256]) * (number % 5000))
        rank.send_raw(msgspec.msgpack.encode([1, "nothing known", 0, {}]))
        if number % 100 == 0:
            yield messages.Heartbeat(sent_at=time.time(), uptime_seconds=float(number))


KINDS: dict[str, Callable[[WireRank], Iterator[messages.Message]]] = {
    maker.__name__: maker
    for maker in (values, names, long_names, metadata, epochs, wide_epochs, events, notices, phases, sessions, noise)
}


def unsent(rank: WireRank) -> int:
    """Bytes that wait for their acknowledgement, about."""
    waiting = rank._waiting
    return len(waiting) * len(waiting[-1][1]) if waiting else 0


def main(address: str, kind: str, seconds: str) -> None:
    context: Any = zmq.Context()
    rank = WireRank(context, parse_address(address), RANK, WORLD)
    rank.hello()
    while not rank.welcome:
        rank.pump()
        time.sleep(0.005)
    ends = time.monotonic() + float(seconds)
    sent = 0
    for message in KINDS[kind](rank):
        rank.send(message)
        sent += 1
        if sent % 16 == 0 or unsent(rank) > UNSENT_BYTES:
            rank.pump()
            while unsent(rank) > UNSENT_BYTES and time.monotonic() < ends + 60:
                rank.pump()
                time.sleep(0.001)
        if time.monotonic() > ends:
            break
    rank.send(messages.Heartbeat(sent_at=time.time(), uptime_seconds=1e6))
    while rank.acknowledged < rank.seq and time.monotonic() < ends + 60:
        rank.pump()
        time.sleep(0.005)
    rank.welcome = None
    rank.hello()  # what comes after everything else
    while not rank.welcome and time.monotonic() < ends + 60:
        rank.pump()
        time.sleep(0.005)
    print(json.dumps({"sent": sent, "acknowledged": rank.acknowledged == rank.seq}), flush=True)
    rank.close()
    context.destroy(linger=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
