"""Two ranks on gloo, bare loops of torch's own loader, one way of training after the other; never mentions Trackside.

Prints a line a way: its name, the optimizer steps it made, the parameters at its end to the last bit.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
samples = TensorDataset(torch.randn(48, 8), torch.randn(48, 1))
loader = DataLoader(samples, batch_size=4, sampler=DistributedSampler(samples, shuffle=False))
criterion = nn.MSELoss()


def model() -> DistributedDataParallel:
    torch.manual_seed(1)
    return DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))


def accumulation() -> tuple[nn.Module, int]:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for number, (inputs, targets) in enumerate(loader):
        last = number % 3 == 2
        with contextlib.nullcontext() if last else net.no_sync():
            criterion(net(inputs), targets).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return net, 2


def two_optimizers() -> tuple[nn.Module, int]:
    net, critic = model(), model()
    optimizer, other = torch.optim.SGD(net.parameters(), lr=1e-2), torch.optim.SGD(critic.parameters(), lr=1e-2)
    for inputs, targets in loader:
        criterion(critic(inputs), net(inputs).detach()).backward()
        other.step()
        other.zero_grad()
        criterion(net(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    return net, 6


def mixed_precision() -> tuple[nn.Module, int]:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for number, (inputs, targets) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(net(inputs), targets)
        scaler.scale(loss * (float("inf") if number == 1 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return net, 6


def compiled() -> tuple[nn.Module, int]:
    net = model()
    fast = torch.compile(net, backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for inputs, targets in loader:
        criterion(fast(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for inputs, _ in loader:
            fast(inputs)
    return net, 6


for way in (accumulation, two_optimizers, mixed_precision, compiled):
    trained, steps = way()
    dist.barrier()
    if dist.get_rank() == 0:
        digest = [parameter.double().sum().item().hex() for parameter in trained.parameters()]
        print(way.__name__, steps, digest, flush=True)
dist.destroy_process_group()
