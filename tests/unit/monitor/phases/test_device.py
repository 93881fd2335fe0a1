"""A device's own time, on a device that is played: work is queued, and done later."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from trackside.monitor.loop import BatchLoop, StepCounter
from trackside.monitor.phases import device, track
from trackside.monitor.phases.device import DeviceClock
from trackside.monitor.phases.fold import Closing, Fold, StepCost
from trackside.monitor.phases.recorder import Recorder
from trackside.monitor.phases.track import Track
from trackside.monitor.pulse import Pulse


class Device:
    """A stream: `work` is queued behind what is there, and `done` says how far it has come."""

    def __init__(self) -> None:
        self.queued = self.done = 0.0
        self.is_capturing = self.has_failed = False
        self.events = self.index = 0

    def work(self, seconds: float) -> None:
        self.queued += seconds

    def Event(self, *, enable_timing: bool) -> "Event":  # noqa: N802 - torch's name
        assert enable_timing
        self.events += 1
        return Event(self)

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def current_device(self) -> int:
        return self.index


class Event:
    def __init__(self, on: Device) -> None:
        self.on, self.at, self.index = on, 0.0, on.index

    def record(self) -> None:
        if self.on.has_failed:
            raise RuntimeError("device-side assert")
        assert self.index == self.on.index, "an event belongs to one device"
        self.at = self.on.queued

    def query(self) -> bool:
        return self.at <= self.on.done

    def elapsed_time(self, other: "Event") -> float:
        assert self.index == other.index
        assert self.query()
        assert other.query()
        return (other.at - self.at) * 1e3


@pytest.fixture
def played() -> Device:
    return Device()


def test_marks_come_when_the_device_has_passed_them_and_in_its_time(played: Device) -> None:
    marks = Track()
    marks.clock = DeviceClock(played)
    marks.put(track.OPEN)
    marks.enter("forward")
    played.work(0.2)
    marks.leave("forward", None)
    marks.enter("backward")
    played.work(0.5)
    marks.leave("backward", None)
    marks.put(track.CLOSE, Closing(step=0))
    assert [code for code, _, _ in marks.take()] == [track.OPEN, track.ENTER], "the rest is queued; nobody waits"
    played.done = 0.3
    marks.settle()
    assert [code for code, _, _ in marks.take()] == [track.LEAVE, track.ENTER]
    played.done = 1.0
    marks.put(track.OPEN)
    marks.put(track.CLOSE, Closing(step=1))
    assert [code for code, _, _ in marks.take()][:2] == [track.LEAVE, track.CLOSE]


def test_a_steps_phases_are_the_devices_seconds(played: Device) -> None:
    marks, folding = Track(), Fold(Pulse())
    marks.clock = DeviceClock(played)
    for step in range(3):
        marks.put(track.OPEN)
        marks.enter("data")
        marks.leave("data", None)
        marks.enter("forward")
        played.work(0.25)
        marks.leave("forward", None)
        marks.enter("collective")
        played.work(0.5)
        marks.leave("collective", None)
        marks.put(track.CLOSE, Closing(step=step, has_peers=True))
        played.done = played.queued
    marks.settle()
    steps = folding.take(marks.take(), 0.0)
    assert [step.step for step in steps] == [0, 1, 2]
    for step in steps:
        assert step.seconds == pytest.approx({"data": 0.0, "forward": 0.25, "collective": 0.5})
        assert (step.wall, step.own) == (pytest.approx(0.75), pytest.approx(0.25))
    assert played.events < 3 * 8, "events are used again"


def test_nothing_is_asked_of_the_device_while_a_graph_is_captured(played: Device) -> None:
    clock = DeviceClock(played)
    clock.hold((track.OPEN, 10.0, None))
    played.is_capturing = True
    clock.hold((track.ENTER, 10.5, "forward"))
    assert (clock.passed(), played.events) == ([], 1)
    played.is_capturing = False
    assert [(code, at) for code, at, _ in clock.passed()] == [(track.OPEN, 10.0), (track.ENTER, 10.5)]


def test_a_device_that_never_comes_by_costs_no_memory(played: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "MAX_WAITING", 3)
    clock = DeviceClock(played)
    played.work(1.0)
    for number in range(5):
        clock.hold((track.OPEN, float(number), None))
    assert [code for code, _, _ in clock.passed()] == [track.TORN]
    assert clock.passed() == []


def test_between_two_devices_the_hosts_clock_counts(played: Device) -> None:
    clock = DeviceClock(played)
    for at, index in enumerate((0, 1, 1, 0)):
        played.index = index
        clock.hold((track.OPEN, 10.0 + at, None))
        played.work(0.25)
    played.done = played.queued
    assert [at for _, at, _ in clock.passed()] == pytest.approx([10.0, 11.0, 11.25, 12.25])


def test_a_failed_device_is_the_users_to_hear_of(played: Device) -> None:
    marks = Track()
    marks.clock = DeviceClock(played)
    played.has_failed = True
    marks.put(track.OPEN)
    marks.put(track.OPEN)
    assert marks.clock is None
    assert [code for code, _, _ in marks.take()] == [track.TORN, track.OPEN]


@pytest.fixture
def cuda(played: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.Event", played.Event)
    monkeypatch.setattr("torch.cuda.is_current_stream_capturing", played.is_current_stream_capturing)
    monkeypatch.setattr("torch.cuda.current_device", played.current_device)
    yield played
    assert "to" not in torch.Tensor.__dict__
    assert "cuda" not in torch.Tensor.__dict__


def test_in_a_real_loop_the_device_is_found_by_itself_and_transfers_are_told_apart(cuda: Device) -> None:
    model, counter, recorder = nn.Linear(4, 1), StepCounter(), Recorder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.register_forward_pre_hook(lambda *_: cuda.work(0.25))
    recorder.start()
    steps: list[StepCost] = []
    folding = Fold(recorder.pulse)
    for batch in BatchLoop([torch.ones(2, 4)] * 4, recorder, counter):
        inputs = batch.to(torch.float64).to(torch.float32)
        model(inputs).sum().backward()
        optimizer.step()
        cuda.done = cuda.queued
        steps += folding.take(recorder.track.take(), 0.0)
    recorder.stop()
    steps += folding.take(recorder.track.take(), 0.0)
    first, *later = steps
    assert (first.own, "step" in first.seconds) == (None, True), "by the host's clock nothing is known of a device"
    assert [step.step for step in later] == [1, 2, 3]
    for step in later:
        assert step.seconds["forward"] == pytest.approx(0.25)
        assert step.own == step.wall == pytest.approx(0.25)
        assert set(step.seconds) == {"data", "transfer", "forward", "backward", "optimizer"}, (
            "none is absent, some took none"
        )
