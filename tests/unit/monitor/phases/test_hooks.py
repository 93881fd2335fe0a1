"""The hooks in a real torch: what a script does is told apart, and torch is as it was when they are gone."""

import copy
import gc
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

from trackside.monitor.guard import FAULTS, guarded_hook
from trackside.monitor.loop import BatchLoop, StepCounter
from trackside.monitor.phases import track
from trackside.monitor.phases.fold import Fold, StepCost
from trackside.monitor.phases.recorder import Recorder
from trackside.monitor.phases.timed import TimedCall

SLEEP_S = 0.02
LONG_S = 0.3
"""Longer than any step here takes on a busy machine."""
MSE = nn.functional.mse_loss


class Watched(Recorder):
    """A recorder whose steps are folded here, not on a send thread."""

    def steps(self) -> list[StepCost]:
        self._folding = getattr(self, "_folding", None) or Fold(self.pulse)
        return self._folding.take(self.track.take(), 0.0)


@pytest.fixture
def watched() -> Iterator[Watched]:
    torch.set_num_threads(1)
    faults = dict(FAULTS.counts)
    made = Watched()
    made.start()
    yield made
    made.stop()
    assert faults == FAULTS.counts


class Model(nn.Module):
    """Sleeps where it is told to."""

    def __init__(self, sleeps: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.sleeps = sleeps

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(self.sleeps)
        return self.layers(inputs)


class Doubled(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * 2


class SleepInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(SLEEP_S)
        return gradient


def loader(batches: int = 3, size: int = 2) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(batches * size, 4), torch.randn(batches * size, 1)), batch_size=size)


def sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    MSE(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()


def counts(steps: list[StepCost]) -> list[tuple[int, int | None]]:
    return [(step.step, step.samples) for step in steps]


@pytest.mark.parametrize("is_bare", [True, False])
def test_each_phase_gets_its_time(watched: Watched, is_bare: bool) -> None:
    class Slow(Dataset[Any]):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            time.sleep(SLEEP_S)
            return torch.ones(4), torch.ones(1)

    model = Model(sleeps=SLEEP_S)
    optimizer = sgd(model)
    optimizer.register_step_pre_hook(lambda *_: time.sleep(SLEEP_S))
    batches = DataLoader(Slow(), batch_size=1)
    for inputs, targets in batches if is_bare else BatchLoop(batches, watched, StepCounter()):
        time.sleep(SLEEP_S)
        MSE(SleepInBackward.apply(model(inputs)), targets).backward()
        optimizer.step()
    steps = watched.steps()
    assert counts(steps) == [(0, 1), (1, 1), (2, 1)]
    for step in steps:
        assert set(step.seconds) == {"data", "forward", "backward", "optimizer", "rest"}
        assert sum(step.seconds.values()) == pytest.approx(step.wall)
        assert step.own == step.wall
        for phase, seconds in step.seconds.items():
            assert seconds >= SLEEP_S, phase
    assert watched.pulse.batches == 3


def test_accumulated_gradients_are_one_step(watched: Watched) -> None:
    model = Model()
    optimizer = sgd(model)
    for number, (inputs, targets) in enumerate(loader(batches=6)):
        MSE(model(inputs), targets).backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    assert counts(watched.steps()) == [(0, 6), (1, 6)]


def test_the_first_of_several_optimizers_counts_and_another_takes_over_when_it_is_gone(watched: Watched) -> None:
    first, second = Model(), Model()
    one, other = sgd(first), sgd(second)
    for inputs, targets in loader(batches=4):
        train(first, one, inputs, targets)
        train(second, other, inputs, targets)
        train(second, other, inputs, targets)
    assert counts(watched.steps()) == [(0, 2), (1, 2), (2, 2), (3, 2)]
    del one
    gc.collect()
    for inputs, targets in loader(batches=2):
        train(second, other, inputs, targets)
    assert len(watched.steps()) == 2


def test_an_optimizer_that_no_longer_steps_hands_over(watched: Watched) -> None:
    first, second = Model(), Model()
    one, other = sgd(first), sgd(second)
    inputs, targets = torch.ones(1, 4), torch.ones(1, 1)
    train(first, one, inputs, targets)
    for _ in range(14):
        train(second, other, inputs, targets)
    assert len(watched.steps()) == 1 + 5


def test_optimizers_that_step_in_the_backward_pass_make_one_step(watched: Watched) -> None:
    model = Model()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    for inputs, targets in loader():
        MSE(model(inputs), targets).backward()
    steps = watched.steps()
    assert counts(steps) == [(0, 2), (1, 2), (2, 2)]
    assert all("optimizer" in step.seconds for step in steps)


def test_evaluation_is_no_step_and_takes_no_time_of_one(watched: Watched) -> None:
    model = Model()
    optimizer = sgd(model)
    for inputs, targets in loader(batches=2):
        train(model, optimizer, inputs, targets)
        with torch.no_grad():
            for held_out, _ in loader(batches=2):
                model(held_out)
                time.sleep(LONG_S / 2)
    time.sleep(LONG_S)
    for inputs, targets in loader(batches=2):
        train(model, optimizer, inputs, targets)
    steps = watched.steps()
    assert counts(steps) == [(number, 2) for number in range(4)]
    assert max(step.wall for step in steps) < LONG_S
    assert (watched.pulse.batches, watched.pulse.samples) == (4, 8)


def test_evaluation_through_batches_is_no_step(watched: Watched) -> None:
    model, counter = Model(), StepCounter()
    optimizer = sgd(model)
    for inputs, targets in BatchLoop(loader(batches=2), watched, counter):
        train(model, optimizer, inputs, targets)
        for held_out, _ in BatchLoop(loader(batches=2), watched, counter):
            with torch.no_grad():
                model(held_out)
            time.sleep(LONG_S)
    steps = watched.steps()
    assert len(steps) == watched.pulse.batches == 2
    assert max(step.wall for step in steps) < LONG_S


def test_a_job_that_only_evaluates_has_steps(watched: Watched) -> None:
    model = Model()
    for inputs, _ in BatchLoop(loader(batches=2), watched, StepCounter()):
        with torch.no_grad():
            model(inputs)
    assert [set(step.seconds) for step in watched.steps()] == [{"data", "forward", "rest"}] * 2


def test_mixed_precision_and_skipped_steps(watched: Watched) -> None:
    model = Model()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number, (inputs, targets) in enumerate(loader(batches=4)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = MSE(model(inputs), targets)
        scaler.scale(loss * (float("inf") if number in (0, 2) else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    steps = watched.steps()
    assert counts(steps) == [(0, 2), (1, 2), (2, 2), (3, 2)]
    assert all(set(step.seconds) == {"data", "forward", "backward", "optimizer", "rest"} for step in steps)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models_are_timed_without_a_warning_and_their_graphs_are_whole(watched: Watched, backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    optimizer = sgd(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for inputs, targets in loader():
            train(compiled, optimizer, inputs, targets)
    steps = watched.steps()
    assert [set(step.seconds) for step in steps] == [{"data", "forward", "backward", "optimizer", "rest"}] * 3


def test_what_is_compiled_around_a_model_is_one_graph_and_never_compiled_again(watched: Watched) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    model, inputs = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)
    function = torch.compile(lambda batch: model(batch).sum(), backend=backend, fullgraph=True)
    for _ in BatchLoop(range(3), watched, StepCounter()):
        function(inputs).backward()
        model(inputs)
    inplace = Doubled()
    inplace.compile(backend=backend, fullgraph=True)
    inplace(inputs)
    inplace(inputs)
    assert len(graphs) == 2


def test_a_compiled_optimizer_still_works(watched: Watched) -> None:
    model = Model()
    optimizer = sgd(model)
    step = torch.compile(optimizer.step, backend="eager")
    before = model.layers[0].weight.clone()
    for inputs, targets in loader():
        MSE(model(inputs), targets).backward()
        step()
    assert not torch.equal(before, model.layers[0].weight)


def test_only_the_outermost_module_is_seen_and_inner_ones_keep_their_fast_path(watched: Watched) -> None:
    seen: list[int] = []

    class Inner(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append(len(nn.modules.module._global_forward_pre_hooks))
            return inputs

    outer = nn.Sequential(Inner(), Inner())
    outer(torch.ones(1))
    assert seen == [0, 0]
    assert not outer._forward_hooks


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_is_backward_not_forward(watched: Watched, use_reentrant: bool) -> None:
    class Slow(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            time.sleep(SLEEP_S)
            return inputs * inputs

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow, self.last = Slow(), nn.Linear(4, 1)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.last(checkpoint(self.slow, inputs, use_reentrant=use_reentrant))

    model = Outer()
    optimizer = sgd(model)
    for _ in BatchLoop([1], watched, StepCounter()):
        train(model, optimizer, torch.ones(1, 4, requires_grad=True), torch.ones(1, 1))
    entered = [about for code, _, about in watched.track.marks if code in (track.ENTER, track.OPEN) and about]
    assert entered == ["data", "forward", "backward", "optimizer", "data"]
    (step,) = watched.steps()
    assert step.seconds["backward"] >= SLEEP_S


def test_transforms_in_the_loader_are_data(watched: Watched) -> None:
    class Transforming(Dataset[Any]):
        flip = nn.Identity()

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return self.flip(torch.ones(4)), torch.ones(1)

    model = Model()
    optimizer = sgd(model)
    for inputs, targets in DataLoader(Transforming(), batch_size=2):
        train(model, optimizer, inputs, targets)
    entered = [about for code, _, about in watched.track.marks if code in (track.ENTER, track.OPEN) and about]
    assert entered == ["data", "forward", "backward", "optimizer"] * 2 + ["data"]


def test_an_error_is_the_users_own_and_the_next_step_is_whole(watched: Watched) -> None:
    class Failing(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            raise ValueError("in the model")

    class Broken(Dataset[Any]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            raise OSError("in the data set")

    def frames(call: Any, kind: type[Exception]) -> str:
        with pytest.raises(kind) as caught:
            call()
        return "".join(traceback.format_exception(caught.value))

    loss = Model()(torch.ones(1, 4)).sum()
    loss.backward()
    told = [
        frames(lambda: Failing()(torch.ones(1)), ValueError),
        frames(lambda: list(DataLoader(Broken())), OSError),
        frames(loss.backward, RuntimeError),
    ]
    assert not any("trackside" in text.replace(__file__, "") for text in told)
    model = Model()
    train(model, sgd(model), torch.ones(1, 4), torch.ones(1, 1))
    step = watched.steps()[-1]
    assert set(step.seconds) >= {"forward", "backward", "optimizer"}


def test_a_method_that_was_looked_up_and_kept_works_and_spoils_nothing(watched: Watched) -> None:
    model = Model()
    optimizer = sgd(model)
    batches = iter(loader(batches=3))
    following = batches.__next__
    kept = Model()(torch.ones(1, 4)).sum().backward
    for _ in range(3):
        train(model, optimizer, *following())
    with pytest.raises(StopIteration):
        following()
    for inputs, targets in loader(batches=2):
        train(model, optimizer, inputs, targets)
    kept()
    del following, kept
    # That a kept `__next__` has come to its end shows at the next backward pass only.
    assert counts(watched.steps()) == [(0, 2), (1, 2), (2, 2), (3, None), (4, 2)]


def test_phases_of_the_users_own(watched: Watched) -> None:
    model = Model(sleeps=SLEEP_S)
    optimizer = sgd(model)
    for inputs, targets in BatchLoop(loader(batches=2), watched, StepCounter()):
        with watched.phase("augment"):
            time.sleep(SLEEP_S)
            model(inputs)
        with watched.phase("forward"):
            time.sleep(SLEEP_S)
        with watched.phase(""), watched.phase(7), watched.phase("x" * 100):  # type: ignore[arg-type]
            pass
        train(model, optimizer, inputs, targets)
    for step in watched.steps():
        assert step.seconds["augment"] >= 2 * SLEEP_S
        assert step.seconds["forward"] >= 2 * SLEEP_S
        assert sum(step.seconds.values()) == pytest.approx(step.wall)


def test_torch_is_as_it_was_when_the_hooks_are_gone() -> None:
    def state() -> list[Any]:
        optimizer = sys.modules["torch.optim.optimizer"]
        return [
            torch.Tensor.__dict__["backward"],
            torch.distributed.Work.__dict__["wait"],
            torch.utils.data.dataloader._BaseDataLoaderIter.__dict__["__next__"],
            torch.amp.GradScaler.__dict__["step"],
            sys.modules["torch._dynamo.eval_frame"].OptimizedModule.__dict__["__call__"],
            dict(nn.modules.module._global_forward_pre_hooks),
            dict(optimizer._global_optimizer_pre_hooks),
            dict(optimizer._global_optimizer_post_hooks),
            list(sys.meta_path),
        ]

    before = state()
    recorder = Recorder()
    recorder.start()
    assert state() != before
    assert torch.Tensor.backward is before[0], "seen from outside nothing has changed"
    recorder.stop()
    recorder.stop()
    assert state() == before


def test_training_is_equal_to_the_last_bit() -> None:
    def result() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(5):
            for inputs, targets in loader():
                train(model, optimizer, inputs, targets)
        return [copy.deepcopy(parameter.data) for parameter in model.parameters()]

    without = result()
    recorder = Recorder()
    recorder.start()
    watched = result()
    recorder.stop()
    assert all(torch.equal(*pair) for pair in zip(without, watched, strict=True))


def test_a_fault_at_the_end_of_a_call_is_noted_and_nobody_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FAULTS, "counts", {})
    call = TimedCall(int, "7")
    call.end, call.about = lambda about: about / 0, 1
    assert call() == 7
    del call
    gc.collect()
    assert FAULTS.counts == {"end of a call: ZeroDivisionError": 1}


def test_a_hook_is_nothing_while_it_is_off_and_its_faults_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FAULTS, "counts", {})
    called, off = [], [True]

    def method(subject: int) -> None:
        called.append(1 / subject)

    hook = guarded_hook(method, lambda: off[0])
    hook(1, "args", "output")
    assert called == []
    off[0] = False
    assert (hook(1, "args"), hook(0)) == (None, None)
    assert (called, FAULTS.counts) == ([1.0], {"method: ZeroDivisionError": 1})
