"""Two ranks on gloo, in turn: FSDP2, buffers that DistributedDataParallel broadcasts, no gradients to share. Rank 1 sleeps."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import trackside

STEPS, DELAY_S = 8, 0.08
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
is_slow = dist.get_rank() == 1


class Sleeping(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if is_slow:
            time.sleep(DELAY_S)
        return inputs


def sharded() -> nn.Module:
    model = nn.Sequential(Sleeping(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[1], model[3]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def replicated() -> nn.Module:
    return DistributedDataParallel(nn.Sequential(Sleeping(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Linear(32, 1)))


def alone() -> nn.Module:
    return nn.Sequential(Sleeping(), nn.Linear(32, 1))


mon = trackside.Monitor()
for make in (sharded, replicated, alone):
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for inputs in mon.batches([torch.ones(4, 32)] * STEPS):
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
mon.finish()
dist.destroy_process_group()
