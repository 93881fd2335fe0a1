"""What `trackside demo` trains: scikit-learn's handwritten digits on every rank, data parallel, in about half a minute.

A real model on real data. Only its pace is held back, so that there is time to look, and rank 1's a little more, so
that Standings has something to say. Started as a module by the ranks; nobody imports it.
"""

import argparse
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

import trackside

_SLOWER_RANK = 0.25
"""How much longer rank 1 takes for a batch of its own."""


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    train, sampler, val = _load(options.batch_size)
    model = DistributedDataParallel(_make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.epochs * len(train))
    pace_s = options.seconds / (options.epochs * len(train) * (1 + _SLOWER_RANK))

    mon = trackside.Monitor(epochs=options.epochs, config=vars(options))
    mon.watch(model)
    for epoch in mon.epochs():
        sampler.set_epoch(epoch)
        for images, labels in mon.batches(train):
            began = time.perf_counter()
            with mon.phase("augment"):
                shifted = _shifted(images)
                time.sleep(max(0.0, pace_s * (1 + _SLOWER_RANK * rank) - (time.perf_counter() - began)))
            loss: Any = nn.functional.cross_entropy(model(shifted), labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mon.log({"loss": loss, "lr": schedule.get_last_lr()[0], "grad_norm": norm})
            schedule.step()
        if rank == 0:
            mon.log_epoch(epoch, {"val/acc": _accuracy(model.module, val)})
    mon.finish()
    dist.destroy_process_group()


def _load(batch_size: int) -> tuple[Any, Any, Any]:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    data = TensorDataset(images, torch.tensor(digits.target))
    train, val = random_split(data, [0.8, 0.2], torch.Generator().manual_seed(0))
    sampler: Any = DistributedSampler(train)
    return DataLoader(train, batch_size, sampler=sampler, drop_last=True), sampler, DataLoader(val, 256)


def _make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(48 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def _shifted(images: torch.Tensor) -> torch.Tensor:
    """Move a batch by up to one pixel; otherwise so small a set is learnt in a moment."""
    down, right = (int(torch.randint(-1, 2, ())) for _ in range(2))
    return images.roll((down, right), dims=(2, 3))


@torch.no_grad()
def _accuracy(model: Any, loader: Any) -> float:
    model.eval()
    right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in loader)
    model.train()
    return right / len(loader.dataset)


if __name__ == "__main__":
    main()
