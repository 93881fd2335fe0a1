"""One real forward, recorded, and nothing changed by it."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from tests.unit.monitor.models import ZOO, Encoder, Frozen, Lazy, ResNet, Saving, loss_of, make
from trackside.monitor.guard import FAULTS
from trackside.monitor.model.watching import ModelWatch
from trackside.wire import messages
from trackside.wire.documents import GraphDocument


@pytest.fixture(autouse=True)
def no_faults() -> Any:
    FAULTS.counts.clear()
    yield
    assert FAULTS.counts == {}


def watch(model: nn.Module) -> ModelWatch:
    watched = ModelWatch(model)
    watched.start()
    return watched


def graphs(watched: ModelWatch) -> list[GraphDocument]:
    """The graphs that are to be sent."""
    return [
        msgspec.msgpack.decode(bytes(message.graph), type=GraphDocument)
        for message in watched.due(time.monotonic())
        if isinstance(message, messages.SetGraph)
    ]


def recorded(name: str) -> GraphDocument:
    model, given = make(name)
    watched = watch(model)
    assert [graph.recorded for graph in graphs(watched)] == [False]
    model(given)
    (graph,) = graphs(watched)
    assert graph.recorded
    return graph


def edges(graph: GraphDocument) -> set[tuple[str, str]]:
    names = [node.name for node in graph.nodes]
    return {(names[edge.source], names[edge.target]) for edge in graph.edges}


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


# --- what is recorded -----------------------------------------------------------------------------------------------


def test_a_resnets_sums_and_in_place_activations_are_followed() -> None:
    graph = recorded("resnet")
    assert graph.note is None
    found = edges(graph)
    assert found >= {
        ("stem.0", "stem.1"),
        ("stem.2", "layer1.0.conv1"),
        ("layer1.0.conv1", "layer1.0.bn1"),
        ("layer1.0.bn2", "layer1.0.relu"),
        ("layer1.0.relu", "layer1.1.conv1"),
        ("layer2.down.1", "layer2.relu"),
        ("pool", "fc"),
    }
    assert ("stem.2", "layer1.0.relu") in found, "the residual sum"
    assert ("layer1.0.relu", "layer1.1.relu") in found
    assert not any(target in ("", "layer1", "stem") for _, target in found), "containers that only hand on"
    by_name = {node.name: node for node in graph.nodes}
    assert (by_name["layer1.0.relu"].calls, by_name["fc"].calls, by_name[""].order) == (2, 1, 0)
    assert by_name["fc"].inputs[0].shape == [2, 8]
    assert by_name["fc"].outputs[0].dtype == "float32"
    edge = next(e for e in graph.edges if e.target == by_name["fc"].id)
    assert edge.tensor is not None
    assert edge.tensor.shape == [2, 8]


def test_a_transformers_residual_stream_and_tied_embedding_are_followed() -> None:
    graph = recorded("gpt")
    found = edges(graph)
    assert found >= {
        ("wte", "layers.0.ln1"),
        ("wpe", "layers.0.ln1"),
        ("layers.0.attention.qkv", "layers.0.attention.proj"),
        ("layers.0.attention.proj", "layers.0.ln2"),
        ("wte", "layers.0.ln2"),
        ("wte", "layers.0"),
        ("layers.0.mlp.2", "layers.0"),
        ("layers.0.attention.proj", "layers.0"),
        ("layers.0", "layers.1.ln1"),
        ("layers.0", "layers.1"),
        ("layers.1", "norm"),
        ("norm", "head"),
    }
    assert ("layers.0", "norm") not in found, "what a layer adds to is the layer's own"
    assert graph.parameters.shared == 11 * 8
    order = {node.name: node.order for node in graph.nodes if node.order is not None}
    assert sorted(order, key=order.__getitem__)[:5] == ["", "wte", "wpe", "layers.0", "layers.0.ln1"]
    assert next(node for node in graph.nodes if node.name == "layers").calls == 0, "a list is not called"


def test_packed_sequences_are_followed() -> None:
    graph = recorded("lstm")
    assert edges(graph) == {("embed", "lstm"), ("lstm", "head")}
    lstm = next(node for node in graph.nodes if node.name == "lstm")
    assert lstm.inputs[0].shape == [9, 6]
    assert [spec.shape for spec in lstm.outputs[-2:]] == [[1, 3, 7], [1, 3, 7]]


def test_d87_control_flow_and_nested_values_are_followed() -> None:
    graph = recorded("branching")
    assert edges(graph) == {
        ("first", "split.a"),
        ("first", "split.b"),
        ("split.a", "head.odd"),
        ("split.b", "head.odd"),
    }
    calls = {node.name: node.calls for node in graph.nodes}
    assert (calls["unused"], calls["head.even"], calls["head.odd"]) == (0, 0, 1)


def test_a_module_called_several_times_counts_its_calls() -> None:
    graph = recorded("shared")
    assert edges(graph) == {("one", "out")}
    assert {node.name: node.calls for node in graph.nodes} == {"": 1, "one": 3, "out": 1}


def test_a_detached_tensor_is_followed_by_its_storage() -> None:
    assert edges(recorded("frozen")) == {("body.0", "body.1"), ("body.1", "head")}


@pytest.mark.parametrize("name", ["checkpointed", "reentrant"])
def test_checkpointed_parts_are_recorded_once(name: str) -> None:
    model, given = make(name)
    watched = watch(model)
    graphs(watched)
    model(given).sum().backward()
    (graph,) = graphs(watched)
    chain = ["first", "inner.0", "inner.1", "inner.2", "inner.3", "last"]
    assert edges(graph) == set(itertools.pairwise(chain))
    assert all(node.calls == 1 for node in graph.nodes)


def test_without_gradients_what_is_handed_on_is_followed_and_the_rest_is_absent() -> None:
    model, given = make("resnet")
    watched = watch(model)
    graphs(watched)
    with torch.no_grad():
        model.eval()(given)
    (graph,) = graphs(watched)
    assert "without gradients" in (graph.note or "")
    assert ("layer1.0.conv1", "layer1.0.bn1") in edges(graph)
    assert ("stem.2", "layer1.0.relu") not in edges(graph)
    model.train()(given)
    (graph,) = graphs(watched)
    assert graph.note is None, "a pass of training tells more"
    assert ("stem.2", "layer1.0.relu") in edges(graph)
    model(given)
    assert graphs(watched) == []


def test_a_reused_address_is_not_taken_for_a_tensor_that_is_gone() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(50):
                self.a(x)
            return self.b(torch.ones(3, 4))

    model = Forgetful()
    watched = watch(model)
    with torch.no_grad():
        model(torch.randn(3, 4))
    assert edges(graphs(watched)[-1]) == set()


def test_a_lazy_model_gets_its_shapes_and_hash_with_the_first_pass() -> None:
    model = Lazy()
    watched = watch(model)
    (tree,) = graphs(watched)
    assert tree.hash is None
    model(torch.randn(2, 3, 8, 8))
    sent = watched.due(0)
    graph = msgspec.msgpack.decode(bytes(next(m for m in sent if isinstance(m, messages.SetGraph)).graph))
    assert (graph["hash"] is not None, graph["parameters"]["total"]) == (True, 112 + 290)
    assert [m.watched["total"] for m in sent if isinstance(m, messages.SetMetadata)] == [402]
    assert [node["type"] for node in graph["nodes"]] == ["Lazy", "Conv2d", "Linear"]


def test_meta_parameters_and_tensors_that_hold_nothing_are_no_pass() -> None:
    model = Frozen().to("meta")
    watched = watch(model)
    model(torch.randn(2, 4, device="meta"))
    (tree,) = graphs(watched)
    assert not tree.recorded
    assert tree.parameters.total == sum(p.numel() for p in model.parameters())


def test_a_forward_that_raises_leaves_no_hooks_and_the_next_one_is_recorded() -> None:
    model, given = make("resnet")
    watched = watch(model)
    graphs(watched)
    with pytest.raises(RuntimeError):
        model(torch.randn(2, 7, 8, 8))
    assert hooks(model) == 1
    assert graphs(watched) == []
    try:
        raise ValueError("a retry happens in an except block")
    except ValueError:
        model(given)
    assert [graph.recorded for graph in graphs(watched)] == [True]


def test_an_interrupt_inside_a_forward_leaves_no_hooks_after_the_next_one() -> None:
    model, given = make("resnet")
    watched = watch(model)
    graphs(watched)
    handle = model.fc.register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        model(given)
    handle.remove()
    model(given)
    model(given)
    assert [graph.recorded for graph in graphs(watched)] == [True]
    assert hooks(model) == 1


def test_a_part_that_raises_and_is_caught_did_not_end() -> None:
    class Trying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.bad, self.good = nn.Linear(4, 4), nn.Linear(9, 9), nn.Linear(4, 2)

        def forward(self, x):
            x = self.first(x)
            with contextlib.suppress(RuntimeError):
                x = self.bad(x)
            return self.good(x)

    model = Trying()
    watched = watch(model)
    model(torch.randn(3, 4))
    graph = graphs(watched)[-1]
    assert edges(graph) == {("first", "good")}


def test_a_model_that_always_raises_is_given_up_and_the_tree_says_so() -> None:
    model = ResNet()
    watched = watch(model)
    graphs(watched)
    for _ in range(8):
        with pytest.raises(RuntimeError):
            model(torch.randn(1))
    (tree,) = graphs(watched)
    assert (tree.recorded, "No forward pass came to its end" in (tree.note or "")) == (False, True)


def test_a_copy_of_the_model_is_not_the_model() -> None:
    model, given = make("single")
    watched = watch(model)
    graphs(watched)
    copy.deepcopy(model)(given)
    assert graphs(watched) == []
    model(given)
    assert len(graphs(watched)) == 1


def test_other_threads_running_the_model_are_not_mixed_in() -> None:
    model, given = make("resnet")
    watched = watch(model)
    inside, go_on = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            assert go_on.wait(30)

    handle = model.layer2.register_forward_pre_hook(wait)
    other = threading.Thread(target=model, args=(given,))
    other.start()
    assert inside.wait(30)
    model(given)
    go_on.set()
    other.join(30)
    handle.remove()
    graph = graphs(watched)[-1]
    assert {node.name: node.calls for node in graph.nodes}["fc"] == 1
    assert hooks(model) == 1


def test_ten_thousand_modules_are_bounded_work_and_size() -> None:
    model = nn.Sequential(*(nn.Sequential(*(nn.Linear(2, 2) for _ in range(99))) for _ in range(100)))
    watched = watch(model)
    model(torch.randn(1, 2))
    graph = graphs(watched)[-1]
    assert graph.recorded
    assert len(graph.nodes) <= 2_000
    assert sum(node.hidden for node in graph.nodes) + len(graph.nodes) == 10_001
    assert "too large" in (graph.note or "")
    assert len(msgspec.msgpack.encode(graph)) < 1_000_000
    assert len(graph.edges) < 4_000


# --- nothing changed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_watching_changes_no_bit(name: str, training: bool, grad: bool) -> None:
    plain, given = make(name)
    watched_model, _ = make(name)
    watched = watch(watched_model)
    for step in range(14):
        outcomes = []
        for model in (plain, watched_model):
            torch.manual_seed(step)
            model.train(training)
            model.zero_grad()
            with torch.set_grad_enabled(grad):
                loss = loss_of(model(given))
            if loss.requires_grad:
                loss.backward()
            outcomes.append([loss.detach(), *(p.grad for p in model.parameters()), *model.buffers()])
        for a, b in zip(*outcomes, strict=True):
            assert (a is None and b is None) or torch.equal(a, b)
    assert watched.due(0)[0].graph is not None
    assert hooks(watched_model) - hooks(plain) == 1
    watched.close()
    assert hooks(watched_model) == hooks(plain)


def test_evaluations_own_path_of_a_transformer_layer_is_kept() -> None:
    torch.manual_seed(0)
    model = Encoder().eval()
    watched = watch(model)
    ids = torch.randint(0, 11, (3, 4))
    with torch.no_grad():
        model(ids)
    graph = graphs(watched)[-1]
    calls = {node.name: node.calls for node in graph.nodes}
    assert (calls["body"], calls["body.layers.0"], calls["body.layers.0.linear1"]) == (1, None, None)
    model.train()(ids)
    calls = {node.name: node.calls for node in graphs(watched)[-1].nodes}
    assert calls["body.layers.0.linear1"] == 1


def test_a_watched_model_can_be_saved_and_loaded_where_we_are_not(tmp_path) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    watched = watch(model)
    torch.save(model, tmp_path / "model.pt")
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    code = (
        "import sys, torch\n"
        "sys.modules['trackside'] = None\n"
        f"model = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)\n"
        "print(tuple(model(torch.ones(2, 4)).shape))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "(2, 2)", done.stderr
    watched.close()


def test_a_model_that_is_copied_and_saved_inside_its_own_forward_stays_whole() -> None:
    kept: list[tuple[nn.Module, bytes]] = []

    def keep(module: nn.Module) -> None:
        buffer = io.BytesIO()
        torch.save(module, buffer)
        kept.append((copy.deepcopy(module), buffer.getvalue()))

    model = Saving()
    watched = watch(model)
    graphs(watched)
    with Saving.calling(keep):
        expected = model(torch.ones(2, 4))
    (duplicate, data) = kept[0]
    loaded = torch.load(io.BytesIO(data), weights_only=False)
    for other in (duplicate, loaded):
        assert torch.equal(other(torch.ones(2, 4)), expected)
        left = [h for m in other.modules() for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
        assert left
        assert all(type(hook.__self__) is contextlib.nullcontext for hook in left)
    assert [graph.recorded for graph in graphs(watched)] == [True]


def test_the_model_is_not_kept_alive() -> None:
    import gc
    import weakref

    model, given = make("resnet")
    watched = watch(model)
    loss_of(model(given)).backward()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert len(graphs(watched)) == 2


def test_a_pass_that_is_not_looked_at_is_let_through_at_once(monkeypatch) -> None:
    model, given = make("gpt")
    watched = watch(model)
    model(given)
    looked: list[Any] = []
    monkeypatch.setattr("trackside.monitor.model.watching.tensors_in", lambda *values: looked.append(values) or [])
    watched._sampler.next_pass = 1_000
    for _ in range(50):
        model(given)
    assert looked == []
    assert hooks(model) == 1


# --- compiled -------------------------------------------------------------------------------------------------------


@pytest.fixture
def dynamo() -> Any:
    import torch._dynamo

    torch._dynamo.reset()
    with warnings.catch_warnings():
        yield torch._dynamo
    torch._dynamo.reset()


@pytest.mark.parametrize("order", ["watched first", "compiled first", "compiled in place"])
def test_a_compiled_model_stays_compiled_and_is_a_tree(order: str, dynamo: Any) -> None:
    from torch._dynamo.utils import counters

    model, given = make("gpt")
    plain, _ = make("gpt")
    counters.clear()
    if order == "compiled in place":
        model.compile(backend="eager", fullgraph=True)
    compiled = torch.compile(model, backend="eager", fullgraph=True) if "in place" not in order else model
    watched = watch(model if order == "watched first" else compiled)
    for _ in range(3):
        out = compiled(given)
    assert torch.equal(out, plain(given))
    assert counters["stats"]["unique_graphs"] == 1
    (tree,) = graphs(watched)
    assert not tree.recorded
    if order != "watched first":
        assert "compiled as a whole" in (tree.note or "")
    watched.close()
    compiled(given)
    assert counters["stats"]["unique_graphs"] == 1, "taking hooks off must not compile the model again"


def test_d87_a_compiled_part_is_recorded_from_outside(dynamo: Any) -> None:
    from torch._dynamo.utils import counters

    model, given = make("gpt")
    model.layers[0] = torch.compile(model.layers[0], backend="eager", fullgraph=True)
    model.layers[1].attention.compile(backend="eager", fullgraph=True)
    counters.clear()
    watched = watch(model)
    loss_of(model(given)).backward()
    graph = graphs(watched)[-1]
    found = edges(graph)
    assert {("wte", "layers.0"), ("layers.0", "layers.1.ln1")} <= found
    calls = {node.name: node.calls for node in graph.nodes}
    assert (calls["layers.0"], calls["layers.0.ln1"], calls["layers.1.attention"], calls["layers.1.ln1"]) == (
        1,
        None,
        None,
        1,
    )
    assert "compiled" in (graph.note or "")
    for _ in range(3):
        loss_of(model(given)).backward()
    assert counters["stats"]["unique_graphs"] == 2


def test_a_compiled_function_that_calls_a_module_compiles_without_a_break(dynamo: Any) -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
            self.fast = torch.compile(lambda x: torch.relu(self.a(x)), backend="eager", fullgraph=True)

        def forward(self, x):
            return self.b(self.fast(x))

    model = Hidden()
    watched = watch(model)
    for _ in range(3):
        model(torch.ones(3, 4))
    calls = {node.name: node.calls for node in graphs(watched)[-1].nodes}
    assert (calls["a"], calls["b"]) == (0, 1)


def test_tracing_and_exporting_a_watched_model_is_no_pass() -> None:
    model, given = make("single")
    watched = watch(model)
    graphs(watched)
    exported = torch.export.export(model, (given,))
    assert torch.equal(exported.module()(given), model(given))
    assert len(graphs(watched)) == 1, "only the real one"


def test_frozen_parts_show_in_the_counts() -> None:
    tree = graphs(watch(Frozen()))[0]
    assert (tree.parameters.total, tree.parameters.frozen) == (30, 20)
