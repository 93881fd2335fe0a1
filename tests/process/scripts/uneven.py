"""Two DDP ranks over gloo that differ: rank 1 works longer each step, and they log different metrics.

Rank 1 alone has a loss, as the last stage of a pipeline; rank 0 has its own metric; `late` begins with epoch 5.
"""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import trackside

EPOCHS, STEPS = 6, 12
OWN_S = 0.06

rank = int(os.environ["RANK"])
torch.manual_seed(0)
mon = trackside.Monitor(epochs=EPOCHS)
if rank == 0:
    mon.define_metric("samples", "sum", unit="samples")
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = [torch.randn(16 if rank == 0 else 48, 8) for _ in range(STEPS)]
for epoch in mon.epochs():
    for batch in mon.batches(data):
        if rank == 1:
            until = time.thread_time() + OWN_S
            while time.thread_time() < until:
                pass
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mon.log({"loss": 0.25} if rank == 1 else {"stage0/active": 2.0})
        mon.log({"samples": float(len(batch))})
        if epoch >= 5:
            mon.log({"late": float(epoch)})
mon.finish()
dist.destroy_process_group()
