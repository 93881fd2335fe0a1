"""What modules cost: real passes against the host's clock, a device's by events that pass later."""

from __future__ import annotations

import itertools
import math
import time
from array import array
from typing import Any

import pytest
import torch
from torch import nn

from tests.unit.monitor.models import GPT, ZOO, Shared, loss_of, make
from trackside.monitor.guard import FAULTS
from trackside.monitor.model.clock import DeviceClock, HostClock
from trackside.monitor.model.means import Means
from trackside.monitor.model.sampling import LEAST_PASSES, LEAST_PAUSE_S, SHARE, WARM_UP, PassSampler
from trackside.monitor.model.timing import MeasuredPass
from trackside.monitor.model.tree import walk
from trackside.monitor.model.watching import ModelWatch
from trackside.wire import messages


class Ticks:
    """A clock that only what is slow moves on."""

    on_device = True
    now = 0.0

    def mark(self) -> float:
        return Ticks.now

    def has_passed(self, mark: float) -> bool:
        return True

    def seconds(self, since: float, mark: float) -> float:
        return mark - since


class Sleeping(torch.autograd.Function):
    """Takes a second in forward and two in backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Ticks.now += 1
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        Ticks.now += 2
        return grad * 2


class Slow(nn.Module):
    def forward(self, x):
        return Sleeping.apply(x)


class Half(nn.Module):
    """A fast layer, a slow part below a container, a fast layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.middle = nn.Sequential(nn.Tanh(), Slow())

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


def measure(model: nn.Module, given: Any, clock: Any, backward: bool = True) -> tuple[MeasuredPass, dict[str, Any]]:
    """One measured pass with every module hooked; times by name."""
    names = [branch.name for branch in walk(model).branches]
    node = {id(branch.module): at for at, branch in enumerate(walk(model).branches)}
    measured, handles = MeasuredPass(clock), []
    for module in model.modules():
        handles.append(
            module.register_forward_pre_hook(lambda m, a, k: measured.enter(node[id(m)], a, k), with_kwargs=True)
        )
        handles.append(
            module.register_forward_hook(lambda m, a, k, o: measured.leave(node[id(m)], o), with_kwargs=True)
        )
    output = model(given)
    for handle in handles:
        handle.remove()
    measured.end_forward()
    if backward:
        loss_of(output).backward()
    return measured, {names[at]: times for at, times in measured.settle().items()}


def test_the_slow_module_and_its_container_are_named_forward_and_backward() -> None:
    _, times = measure(Half(), torch.randn(3, 4), Ticks())
    for name in ("middle.1", "middle", ""):
        assert times[name] == (1, 2), name
    for name in ("first", "last", "middle.0"):
        assert times[name] == (0, 0), name


def test_calls_of_one_pass_are_added() -> None:
    class Thrice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow, self.first = Slow(), nn.Linear(4, 4)

        def forward(self, x):
            return self.slow(self.slow(self.slow(self.first(x))))

    _, times = measure(Thrice(), torch.randn(3, 4), Ticks())
    assert times["slow"] == times[""] == (3, 6)


def test_without_a_backward_it_is_unknown() -> None:
    model, given = make("gpt")
    measured, times = measure(model, given, HostClock(), backward=False)
    assert not measured.has_backward
    assert {backward for _, backward in times.values()} == {None}
    with torch.no_grad():
        measured, times = measure(model, given, HostClock(), backward=False)
    assert not measured.waits_for_backward
    assert all(forward >= 0 for forward, _ in times.values())


@pytest.mark.parametrize("name", ZOO)
def test_every_model_is_measured(name: str) -> None:
    FAULTS.counts.clear()
    model, given = make(name)
    measured, times = measure(model, given, HostClock())
    assert measured.has_backward
    forward, backward = times[""]
    assert backward is not None
    for part, (own, behind) in times.items():
        assert 0 <= own <= forward * 1.01 + 1e-4, part
        assert behind is None or 0 <= behind <= backward * 1.01 + 1e-4, part
    assert FAULTS.counts == {}


def test_a_second_backward_of_the_same_graph_counts_nothing() -> None:
    model = Half()
    output: list[torch.Tensor] = []
    handle = model.register_forward_hook(lambda *a: output.append(a[-1]))
    measured, _ = measure(model, torch.randn(3, 4), HostClock(), backward=False)
    handle.remove()
    measured.is_over = False
    output[0].sum().backward(retain_graph=True)
    first = measured.settle()
    measured.is_over = False
    output[0].sum().backward()
    assert measured.settle() == first


# --- devices --------------------------------------------------------------------------------------------------------


class FakeEvent:
    """Passes when the test says so; its time is the order it was recorded in."""

    clock = itertools.count()
    passed = 0.0

    def __init__(self) -> None:
        self.at = math.nan

    def record(self) -> None:
        self.at = float(next(FakeEvent.clock))

    def query(self) -> bool:
        return self.at <= FakeEvent.passed

    def elapsed_time(self, other: FakeEvent) -> float:
        assert self.query()
        assert other.query(), "an event was read before it had passed"
        return (other.at - self.at) * 1000


def test_device_events_are_read_when_they_have_passed_and_never_before(monkeypatch) -> None:
    FakeEvent.clock, FakeEvent.passed = itertools.count(), -1.0
    monkeypatch.setattr("trackside.monitor.model.watching.DeviceClock", lambda: DeviceClock(FakeEvent))
    monkeypatch.setattr("trackside.monitor.model.watching._is_on_cuda", lambda module: True)
    monkeypatch.setattr("torch.cuda.memory_allocated", lambda: 0)
    FAULTS.counts.clear()
    model, given = make("gpt")
    watched = ModelWatch(model)
    watched.start()
    watched.due(0)
    for _ in range(WARM_UP + 2):
        loss_of(model(given)).backward()
    assert [m for m in watched.due(time.monotonic()) if isinstance(m, messages.ModuleTimes)] == []
    FakeEvent.passed = math.inf
    loss_of(model(given)).backward()
    (times,) = [m for m in watched.due(time.monotonic()) if isinstance(m, messages.ModuleTimes)]
    assert (times.passes, times.on_device) == (1, True)
    assert all(seconds > 0 for seconds in array("d", times.forward))
    assert FAULTS.counts == {}
    watched.close()


# --- sampling -------------------------------------------------------------------------------------------------------


def measured_at(step_s: float, cost_s: float, passes: int) -> list[float]:
    """When passes are measured in a training of steady steps."""
    sampler, found = PassSampler(), []
    for number in range(1, passes + 1):
        if sampler.is_due(number, number * step_s):
            found.append(number * step_s)
            sampler.note(cost_s, number, number * step_s)
    return found


def test_warm_up_is_left_out_and_measuring_keeps_its_share() -> None:
    assert measured_at(1.0, 1e-9, 100)[0] == WARM_UP + 1
    cost_s, whole_s = 0.01, 100.0
    count = len(measured_at(0.01, cost_s, 10_000))
    assert whole_s * SHARE * 0.9 <= count * cost_s <= whole_s * SHARE + cost_s


@pytest.mark.parametrize(("step_s", "least_s"), [(1e-3, LEAST_PAUSE_S), (1.0, LEAST_PASSES)])
def test_cheap_passes_are_not_measured_all_the_time_nor_slow_ones_too_often(step_s: float, least_s: float) -> None:
    found = measured_at(step_s, 1e-9, 1_000)
    assert len(found) > 2
    assert min(b - a for a, b in itertools.pairwise(found)) >= least_s - 1e-6


def test_means_fade_and_say_what_is_unknown() -> None:
    means = Means(3)
    means.take({0: (1.0, None), 2: (3.0, 4.0)}, on_device=False)
    for _ in range(500):
        means.take({0: (2.0, None)}, on_device=False)
    message = means.message("abc")
    assert (message.passes, message.graph, array("I", message.module).tolist()) == (501, "abc", [0, 2])
    forward, backward = array("d", message.forward), array("d", message.backward)
    assert (forward[0], forward[1], backward[1]) == (pytest.approx(2.0, rel=1e-3), 3.0, 4.0)
    assert math.isnan(backward[0])
    assert message.memory == b""


def test_times_come_at_most_every_few_seconds_and_at_the_end() -> None:
    model, given = make("shared")
    watched = ModelWatch(model)
    watched.start()
    watched.due(0)

    def times(now: float) -> list[messages.ModuleTimes]:
        return [m for m in watched.due(now) if isinstance(m, messages.ModuleTimes)]

    told = []
    deadline = time.monotonic() + 60
    while len(told) < 1 and time.monotonic() < deadline:
        loss_of(model(given)).backward()
        told += times(1000.0)
    (first,) = told
    while watched._means.passes < first.passes + 2 and time.monotonic() < deadline:
        loss_of(model(given)).backward()
        assert times(1004.0) == []
    assert [m.passes for m in times(1005.1)] == [first.passes + 2]
    last = [m for m in watched.close() if isinstance(m, messages.ModuleTimes)]
    assert watched.close() == []
    assert len(last) <= 1
    names = [node.name for node in watched._outline.nodes]
    assert [names[at] for at in array("I", first.module)] == ["", "one", "out"]


def test_a_large_job_tells_less_often() -> None:
    assert ModelWatch(Shared(), world_size=1024)._pause_s == 300.0
    assert ModelWatch(GPT(), world_size=64)._pause_s == 20.0
