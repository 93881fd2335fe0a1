"""Data parallel on the CPU: every rank trains on its share of scikit-learn's handwritten digits.

    trackside run --nproc-per-node 2 examples/ddp.py
    torchrun --nproc-per-node 2 examples/ddp.py

Higher ranks have more work in each batch, as if their machines were slower, so the page's Standings have something to
say: all ranks step together, and yet one of them is what the others wait for.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

import trackside


def load(batch_size: int) -> tuple[DataLoader, DataLoader]:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    data = TensorDataset(images, torch.tensor(digits.target))
    train, val = random_split(data, [0.8, 0.2], torch.Generator().manual_seed(0))
    return DataLoader(train, batch_size, sampler=DistributedSampler(train)), DataLoader(val, 256)


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


@torch.no_grad()
def extra_work(images: torch.Tensor, times: int) -> None:
    """What a slower machine would spend on the same batch."""
    for _ in range(times):
        nn.functional.conv2d(images, torch.ones(32, 1, 3, 3))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--extra-work", type=int, default=15, help="additional passes a batch, times the rank")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    train, val = load(options.batch_size)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(train))

    mon = trackside.Monitor(epochs=options.epochs, config=vars(options))
    mon.watch(model)
    for epoch in mon.epochs():
        train.sampler.set_epoch(epoch)
        for images, labels in mon.batches(train):
            extra_work(images, options.extra_work * rank)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            mon.log({"loss": loss, "lr": scheduler.get_last_lr()[0], "grad_norm": norm})
        if rank == 0:
            mon.log_epoch(epoch, {"val/acc": accuracy(model.module, val)})
    mon.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
