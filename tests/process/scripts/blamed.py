"""A data parallel job with a fault, whose ranks mostly sleep, so that a busy machine changes little of it."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trackside

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="none")
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--since", type=int, default=60)
parser.add_argument("--until", type=int, default=1 << 30)
parser.add_argument("--slow", type=int, default=1)
parser.add_argument("--work", type=float, default=0.06, help="seconds of a forward of the usual batch")
parser.add_argument("--spin", type=float, default=0.0, help="seconds of work of a forward, on one core for all ranks")
options = parser.parse_args()


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.seconds = 0.0

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(options.work * len(batch) / 32 + self.seconds)
        until = time.thread_time() + options.spin
        while time.thread_time() < until:
            pass
        return self.linear(batch)


def batches(rank: int) -> Iterator[torch.Tensor]:
    for step in range(options.steps):
        is_on = options.since <= step < options.until
        if is_on and (options.fault == "input" or (options.fault == "data" and rank == options.slow)):
            time.sleep(0.08)
        small = is_on and options.fault == "share" and rank == options.slow
        yield torch.randn(8 if small else 32, 8)


def main() -> None:
    if options.spin:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    bare = Layer()
    model = DistributedDataParallel(bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    large = torch.zeros(4_000_000)
    leaked = []
    mon = trackside.Monitor()
    for step, batch in enumerate(mon.batches(batches(rank))):
        is_on = options.since <= step < options.until
        bare.seconds = 0.05 if is_on and options.fault == "compute" and rank == options.slow else 0.0
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if is_on and options.fault == "collective":
            for _ in range(4):
                dist.all_reduce(large)
        optimizer.step()
        if options.fault == "checkpoint" and rank == 0 and step % 25 == 24:
            time.sleep(1.0)
        if options.fault == "leak" and rank == options.slow:
            leaked.append(torch.ones(125_000))
    mon.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
