"""No Monitor at all: what the launcher sees of a script that knows nothing of Trackside.

    trackside run --nproc-per-node 2 examples/plain.py

Ranks, hosts, CPU, memory, GPUs, steps and where their time goes, output and exit codes are on the page; curves are not, since
nobody logs any.
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32)[rank::world_size] / 16
    labels = torch.tensor(digits.target)[rank::world_size]

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(options.epochs):
        for batch in torch.randperm(len(images)).split(32)[: len(images) // 32]:
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
