"""One process: a small network learns scikit-learn's handwritten digits.

    python examples/single.py

The first Monitor starts the page beside the script and prints its address.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import trackside


def load(batch_size: int) -> tuple[DataLoader, DataLoader]:
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    data = TensorDataset(images, torch.tensor(digits.target))
    train, val = random_split(data, [0.8, 0.2], torch.Generator().manual_seed(0))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(val, 256)


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    torch.manual_seed(0)
    train, val = load(batch_size=32)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(train))

    mon = trackside.Monitor(epochs=options.epochs, config={"lr": 2e-3, "batch_size": 32})
    mon.serve()
    mon.watch(model)
    for epoch in mon.epochs():
        for images, labels in mon.batches(train):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            mon.log({"loss": loss, "lr": scheduler.get_last_lr()[0], "grad_norm": norm})
        mon.log_epoch(epoch, {"val/acc": accuracy(model, val)})
    mon.finish()


if __name__ == "__main__":
    main()
