"""Two or more ranks train with DDP on gloo; each fault named on the command line is on rank 1 for `STEPS` steps."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import trackside

STEPS = 10
DELAY_S = 0.06
faults = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
is_faulty = dist.get_rank() == 1


class Fault:
    """The one that is on now."""

    name = ""

    def strike(self, name: str) -> None:
        if is_faulty and self.name == name:
            if name == "matmul":
                end = time.monotonic() + DELAY_S
                matrix = torch.full((200, 200), 1e-3)
                while time.monotonic() < end:
                    matrix = matrix @ matrix
            else:
                time.sleep(DELAY_S)


class Samples(Dataset):
    def __len__(self) -> int:
        return 4 * STEPS * len(faults)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index % 4 == 0:
            fault.name = faults[index // (4 * STEPS)]
            fault.strike("loader")
        return torch.ones(16) * index, torch.ones(16)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(16, 16) for _ in range(4)])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        fault.strike("sleep")
        fault.strike("matmul")
        return self.layers(inputs)


fault = Fault()
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
mon = trackside.Monitor()
for inputs, targets in mon.batches(DataLoader(Samples(), batch_size=4)):
    loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    fault.strike("before all-reduce")
    if fault.name == "before all-reduce":
        dist.all_reduce(torch.ones(1))
mon.finish()
dist.destroy_process_group()
