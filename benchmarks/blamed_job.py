"""The job that `diagnose_peer.py` has watched: data parallel, with one fault, its ranks mostly asleep.

Arguments: --watcher none|trackside|traceml, --fault none|data|compute|input, --out FILE for rank 0's steps: when each ended, and
the CPU seconds of its process by then.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

SLOW = 1


class Batches(Dataset[torch.Tensor]):
    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.options, self.rank = options, rank

    def __len__(self) -> int:
        return int(self.options.steps)

    def __getitem__(self, at: int) -> torch.Tensor:
        options = self.options
        is_slow = options.fault == "input" or (options.fault == "data" and self.rank == SLOW)
        time.sleep(0.08 if is_slow and at >= options.since else 0.0)
        return torch.randn(32, 8)


class Layer(nn.Module):
    seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(0.06 + self.seconds)
        return self.linear(batch)


Step = Callable[[nn.Module], AbstractContextManager[Any]]


def watched(options: argparse.Namespace) -> tuple[Step, Callable[[], None]]:
    """What goes round a step, and what comes at the end."""
    if options.watcher == "traceml":
        import traceml_ai

        traceml_ai.init(mode="auto")
        return traceml_ai.trace_step, lambda: None
    return lambda model: contextlib.nullcontext(), lambda: None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--watcher", default="none")
    parser.add_argument("--fault", default="none")
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--since", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    wrap, finish = watched(options)
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    layer = Layer()
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ended: list[float] = []
    cpu: list[float] = []
    for step, batch in enumerate(loop(DataLoader(Batches(options, rank), batch_size=None))):
        layer.seconds = 0.05 if options.fault == "compute" and rank == SLOW and step >= options.since else 0.0
        with wrap(model):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ended.append(time.time())
        cpu.append(time.process_time())
    finish()
    if rank == 0:
        options.out.write_text(json.dumps({"ended": ended, "cpu_s": cpu}))
    dist.destroy_process_group()


def loop(loader: DataLoader[torch.Tensor]) -> Iterator[torch.Tensor]:
    yield from loader


if __name__ == "__main__":
    main()
