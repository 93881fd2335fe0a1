"""What is known of a model without running it: hash, counts, tree, folding."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.unit.monitor.models import GPT, ZOO, Hostile, Lazy, ResNet, Shared
from trackside.monitor.model.counts import count
from trackside.monitor.model.folding import fold
from trackside.monitor.model.outline import outline
from trackside.monitor.model.structure import structural_hash
from trackside.monitor.model.tree import walk


def hash_of(model: nn.Module) -> str | None:
    return structural_hash(walk(model))


@pytest.mark.parametrize("name", ZOO)
def test_the_hash_says_the_architecture_not_its_state(name: str) -> None:
    first, second = ZOO[name][0](), ZOO[name][0]()
    assert hash_of(first) == hash_of(second) != hash_of(nn.Linear(7, 7))
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(1.0)
    second.eval()
    for parameter in second.parameters():
        parameter.requires_grad_(False)
    assert hash_of(second.double()) == hash_of(first)
    assert hash_of(copy.deepcopy(first)) == hash_of(first)
    with torch.device("meta"):
        assert hash_of(ZOO[name][0]()) == hash_of(first)


def test_the_hash_is_the_same_in_every_process() -> None:
    """Ranks and runs are processes of their own, whose sets and hashes have another order each."""
    here = Path(__file__)
    code = (
        "from tests.unit.monitor.models import ZOO\n"
        "from tests.unit.monitor.test_model_structure import hash_of\n"
        "print(*(hash_of(ZOO[name][0]()) for name in ZOO))\n"
    )
    others = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=here.parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert others == [[hash_of(make()) for make, *_ in ZOO.values()]] * 2


CHANGES = {
    "type": lambda m: setattr(m.stem, "2", nn.LeakyReLU()),
    "order": lambda m: m.layer1.__setattr__("_modules", {"0": m.layer1[1], "1": m.layer1[0], "2": m.fc}),
    "name": lambda m: m.__dict__["_modules"].__setitem__("neck", m._modules.pop("pool")),
    "shape": lambda m: setattr(m, "fc", nn.Linear(8, 6)),
    "stride": lambda m: setattr(m.stem[0], "stride", (2, 2)),
    "in place": lambda m: setattr(m.stem[2], "inplace", False),
    "bias": lambda m: setattr(m, "fc", nn.Linear(8, 5, bias=False)),
    "eps": lambda m: setattr(m.stem[1], "eps", 1e-3),
    "one more": lambda m: m.add_module("aux", nn.Identity()),
    "a plain setting": lambda m: setattr(m.layer2, "drop_path", 0.1),
    "a named setting": lambda m: setattr(m.layer2, "mode", "nearest"),
    "a buffer": lambda m: m.register_buffer("mask", torch.zeros(3)),
    "a tie": lambda m: setattr(m.layer1[1].conv1, "weight", m.layer1[0].conv1.weight),
    "the same module twice": lambda m: setattr(m, "again", m.pool),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_hash_differs_when_a_layer_does(change: str) -> None:
    model, other = ResNet(), ResNet()
    CHANGES[change](other)
    assert hash_of(model) != hash_of(other)


def test_the_hash_knows_settings_that_no_shape_shows() -> None:
    assert hash_of(GPT(heads=2)) != hash_of(GPT(heads=4))
    assert hash_of(nn.MultiheadAttention(8, 2)) != hash_of(nn.MultiheadAttention(8, 4))
    pre, post = (nn.TransformerEncoderLayer(8, 2, 16, norm_first=first) for first in (True, False))
    assert hash_of(pre) != hash_of(post)


def test_the_hash_leaves_out_where_and_how_far_a_model_is() -> None:
    model, other = ResNet(), ResNet()
    for name, value in {
        "local_rank": 3,
        "device": "cuda:3",
        "num_steps": 7,
        "last_loss": 0.3,
        "_cache": 4,
        "log_dir": "/a",
    }.items():
        setattr(other, name, value)
    assert hash_of(model) == hash_of(other)


def test_the_hash_looks_through_wrappers() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model, wrapped = ResNet(), ResNet()
    wrapped.layer2 = torch.compile(wrapped.layer2, backend="eager")
    wrapped.layer1[0] = checkpoint_wrapper(wrapped.layer1[0])
    wrapped.fc.compile(backend="eager")
    assert hash_of(torch.compile(wrapped, backend="eager")) == hash_of(model)
    assert [b.name for b in walk(wrapped).branches] == [name for name, _ in model.named_modules()]


def test_the_hash_looks_through_ddp_and_fully_shard(tmp_path) -> None:
    from torch.distributed.fsdp import fully_shard

    model, sharded = GPT(), GPT()
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert hash_of(DistributedDataParallel(copy.deepcopy(model))) == hash_of(model)
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        for layer in sharded.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        assert hash_of(sharded) == hash_of(model)
        assert [b.name for b in walk(sharded).branches] == [name for name, _ in model.named_modules()]
        assert outline(sharded).label == "GPT"
    finally:
        torch.distributed.destroy_process_group()


def test_a_lazy_model_has_no_hash_before_its_first_input() -> None:
    known = outline(Lazy())
    assert (known.hash, known.is_lazy, known.parameters.total) == (None, True, 0)


def test_parameters_are_counted_with_children_and_shared_ones_once() -> None:
    model = GPT()
    model.wpe.requires_grad_(False)
    counts = count(walk(model))
    total = sum(parameter.numel() for parameter in model.parameters())
    frozen = model.wpe.weight.numel()
    assert counts.watched == {"total": total, "trainable": total - frozen, "frozen": frozen}
    assert counts.shared == model.wte.weight.numel()
    nodes = {node.name: node for node in outline(model).nodes}
    for name, module in model.named_modules():
        own = sum(parameter.numel() for parameter in module.parameters())
        trainable = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
        assert (nodes[name].parameters, nodes[name].trainable) == (own, trainable), name
    assert nodes["wte"].shared_with == [nodes["head"].id]
    assert nodes["head"].shared_with == [nodes["wte"].id]
    assert nodes["norm"].shared_with == []


def test_buffers_and_places_are_in_the_tree() -> None:
    nodes = outline(ResNet()).nodes
    assert [node.id for node in nodes] == list(range(len(nodes)))
    assert all(node.parent is not None and node.parent < node.id for node in nodes[1:])
    by_name = {node.name: node for node in nodes}
    assert by_name["stem.1"].buffers == 9
    assert by_name["layer1"].buffers == 4 * 9
    assert (by_name["layer2.down.0"].type, nodes[0].type) == ("Conv2d", "ResNet")


def test_a_module_under_two_names_is_one_node() -> None:
    assert [node.name for node in outline(Shared()).nodes] == ["", "one", "out"]


def test_a_model_that_raises_when_asked_is_described_all_the_same() -> None:
    known = outline(Hostile())
    assert (known.label, [node.name for node in known.nodes], known.parameters.total) == ("Hostile", ["", "inner"], 10)


def test_names_that_are_no_text_and_deep_nesting_are_taken() -> None:
    deep = nn.Linear(1, 1)
    for _ in range(3_000):
        outer = nn.Module()
        outer.add_module("a", deep)
        deep = outer
    deep.add_module("\ud800", nn.Identity())
    known = outline(deep)
    known.document("note")
    assert len(known.nodes) == 2_000
    assert sum(node.hidden for node in known.nodes) == 3_002 - 2_000


def test_a_huge_model_is_folded_whole_families_first() -> None:
    # root -> 10 stages -> 10 blocks each -> 100 layers each
    parents: list[int | None] = [None]
    for _ in range(10):
        stage = len(parents)
        parents.append(0)
        for _ in range(10):
            block = len(parents)
            parents.append(stage)
            parents += [block] * 100
    folding = fold(parents, most=500)
    assert len(folding.shown) == 500
    assert sum(folding.hidden) == len(parents) - 500
    node = {at: number for number, at in enumerate(folding.shown)}
    assert sum(1 for at in folding.shown if parents[at] == 0) == 10
    for at, parent in enumerate(parents):
        if at in node and parent is not None:
            assert folding.parent[node[at]] == node[parent]
        assert folding.stands_for[at] == node.get(at, folding.stands_for[parent or 0])
    assert folding.end[0] == 500


def test_a_flat_model_of_ten_thousand_modules_shows_as_many_as_there_is_room_for() -> None:
    known = outline(nn.Sequential(*(nn.Identity() for _ in range(10_000))))
    assert len(known.nodes) == 2_000
    assert known.nodes[0].hidden == 10_001 - 2_000
    assert len(known.document(None)) < 500_000
