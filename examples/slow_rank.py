"""A job with a fault on purpose: find it on the page, or with `trackside diagnose`.

    trackside run --nproc-per-node 4 examples/slow_rank.py
    trackside run --nproc-per-node 4 examples/slow_rank.py --fault compute

Every rank shows the same step time, because all wait for the one that is slow.
"""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

import trackside

FAULTS = ("none", "data", "compute", "input", "share", "checkpoint")


class Batches(IterableDataset):
    """Random batches; the loader of the rank with the fault is slow."""

    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.options, self.rank = options, rank

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        options = self.options
        generator = torch.Generator().manual_seed(self.rank)
        is_slow = options.fault == "input" or (options.fault == "data" and self.rank == options.slow)
        many = options.fault == "share" and self.rank == options.slow
        for step in range(options.steps):
            is_on = options.since <= step < options.until
            if is_slow and is_on:
                time.sleep(options.seconds)
            samples = options.batch_size * (3 if many and is_on else 1)
            images = torch.randn(samples, 256, generator=generator)
            yield images, images[:, :10].argmax(1)


class Model(nn.Module):
    """A perceptron; on the rank with the fault its layers run more often than they need to."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        self.seconds = 0.0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            with torch.no_grad():
                self.layers(images[:4])
        return self.layers(images)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, default="data")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--since", type=int, default=100, help="step at which it begins")
    parser.add_argument("--until", type=int, default=1 << 30, help="step at which it ends")
    parser.add_argument("--slow", type=int, default=2, help="rank that has it")
    parser.add_argument("--seconds", type=float, default=0.03, help="what it costs in each step")
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    bare = Model()
    model = DistributedDataParallel(bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    mon = trackside.Monitor(steps=options.steps, config=vars(options))
    loader = DataLoader(Batches(options, rank), batch_size=None)
    for step, (images, labels) in enumerate(mon.batches(loader)):
        is_on = options.since <= step < options.until
        bare.seconds = options.seconds if options.fault == "compute" and rank == options.slow and is_on else 0.0
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mon.log({"loss": loss}, step=step)
        if options.fault == "checkpoint" and rank == 0 and step % 50 == 49:
            time.sleep(1.0)
    mon.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
