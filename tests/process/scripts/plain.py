"""Trains with DDP and never mentions Trackside. Says what a stranger could notice; `--raise` ends with an error."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
for _ in range(3):
    for inputs, targets in DataLoader(samples, batch_size=4, num_workers=1 if "--workers" in sys.argv else 0):
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for inputs, _ in DataLoader(samples, batch_size=4):
            model.module(inputs)
dist.barrier()
if rank == 0:
    print("argv", sys.argv[1:])
    print("name", __name__, Path(__file__).name, sys.path[0] == str(Path(__file__).resolve().parent))
    print("path", os.environ.get("PYTHONPATH"), [entry for entry in sys.path if "autostart" in entry])
    print("site", getattr(sys.modules.get("sitecustomize"), "MARK", None))
    print("loss", loss.item().hex(), sum(p.double().sum().item() for p in model.parameters()).hex())
    print("trackside", "trackside" in globals())
dist.destroy_process_group()
if "--raise" in sys.argv:
    model.module(torch.zeros(1, 9))
