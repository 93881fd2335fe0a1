"""Two ranks train a small transformer, wrapped as the first argument says, and watch it; compiled, rank 0 alone does."""

import sys

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import trackside

HOW = sys.argv[1]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(50, width), nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 50)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(x)}


def wrap(model):
    if HOW == "ddp":
        return DistributedDataParallel(model)
    if HOW == "compiled":
        return torch.compile(DistributedDataParallel(model), backend="eager")
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, mesh=distributed.init_device_mesh("cpu", (distributed.get_world_size(),)))
    return fully_shard(model, mesh=distributed.init_device_mesh("cpu", (distributed.get_world_size(),)))


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    mon = trackside.Monitor(steps=150)
    if HOW == "ddp":
        mon.watch(model)
    model = wrap(model)
    if HOW != "compiled" or distributed.get_rank() == 0:
        mon.watch(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = [torch.randint(0, 50, (4, 8)) for _ in range(150)]
    for step, ids in enumerate(mon.batches(loader)):
        loss = nn.functional.cross_entropy(model(ids)["logits"].flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            mon.log({"loss": loss.detach()})
    mon.finish()
    distributed.destroy_process_group()


main()
