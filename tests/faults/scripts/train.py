"""Trains a small model in a fixed order, logs every step unless `--bare`, and prints what the model became.

With `--light` the model is a few numbers of plain Python: nothing but the standard library is imported, and log() gets floats.
With `--until` it goes on until a file appears, and says how many steps that were.
"""

import argparse
import contextlib
import hashlib
import itertools
import mmap
import os
import random
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

Training = Iterator[tuple[object, str]]


def train_network() -> Training:
    """Losses as 0-d tensors, each with the digest of the weights after it."""
    import torch

    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    while True:
        x = torch.randn(32, 8)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, digest_of(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))


def train_line() -> Training:
    """The same of a straight line, by hand."""
    chance = random.Random(7)
    slope, offset = 0.0, 0.0
    while True:
        x = chance.gauss(0, 1)
        error = slope * x + offset - (3 * x + 1)
        slope, offset = slope - 0.05 * error * x, offset - 0.05 * error
        yield error * error, digest_of(f"{slope!r} {offset!r}".encode())


def digest_of(weights: bytes) -> str:
    return hashlib.sha256(weights).hexdigest()[:16]


def steps_of(options: argparse.Namespace) -> Iterator[int]:
    """The numbers of the steps, as long as there are any."""
    if options.until is None:
        return iter(range(options.steps))
    return itertools.takewhile(lambda step: not options.until.exists(), itertools.count())


def open_count(path: Path) -> mmap.mmap:
    """Eight bytes that outlive this process."""
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)


def take_descriptors(spare: int) -> list[int]:
    """Every one that this process may have but so many; what opens a file from now on fails."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken: list[int] = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))
    for _ in range(spare):
        os.close(taken.pop())
    return taken


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--hz", type=float, default=200)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--until", type=Path)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--stubborn", action="store_true", help="go on after SIGTERM")
    parser.add_argument(
        "--count", type=Path, help="a file that holds, at any moment, how many calls of log() have returned"
    )
    parser.add_argument("--hog", type=float, default=0.0)
    parser.add_argument("--spare", type=int, default=0)
    options = parser.parse_args()
    mon = None
    began = time.monotonic()
    if not options.bare:
        import trackside

        mon = trackside.Monitor(steps=options.steps, name="faulty")
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    counted = open_count(options.count) if options.count else None
    hog = take_descriptors(options.spare) if options.hog else []
    due, digest, count = time.monotonic(), "", 0
    training = train_line() if options.light else train_network()
    for step in steps_of(options):
        loss, digest = next(training)
        if mon is not None:
            mon.log({"loss": loss}, step=step)
        count += 1
        if counted is not None:
            counted[:8] = count.to_bytes(8, "little")
        while hog and time.monotonic() - began > options.hog:
            os.close(hog.pop())
        due = max(due + 1 / options.hz, time.monotonic())  # as in a training, no pause is made up for
        time.sleep(max(0.0, due - time.monotonic()))
    print("weights", digest, "steps", count, flush=True)
    if mon is not None:
        mon.finish()
    return options.exit


if __name__ == "__main__":
    raise SystemExit(main())
