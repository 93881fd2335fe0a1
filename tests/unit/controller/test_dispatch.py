from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.run.play import batch
from trackside.controller.dispatch import Dispatch
from trackside.run import inputs, outputs
from trackside.run.inputs import Input, Moment
from trackside.run.outputs import Instruction
from trackside.sinks.quiet import QuietSink
from trackside.wire import messages
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

EVENT = EventRecord(id=1, time=1.0, path="root", kind="user", severity="info", text="x")
EPOCH = EpochRecord(
    epoch=0,
    seconds=None,
    metrics={},
    samples=None,
    batches=None,
    throughput=None,
    ranks=1,
    complete=True,
    ended_at=None,
)
NOW = Moment(1.0, 2.0)


class MadeMachine:
    """Answers every input with what a test wants."""

    def __init__(self, answer: Callable[[Input], list[Instruction]]) -> None:
        self.seen: list[Input] = []
        self._answer = answer

    def handle(self, event: Input, now: Moment) -> list[Instruction]:
        self.seen.append(event)
        return self._answer(event)


class Notes:
    """Takes any call and writes it down."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append((name, arguments))


class NotingSink(QuietSink):
    def __init__(self, name: str, fails: bool = False) -> None:
        self.name, self.fails, self.events = name, fails, 0

    def push_event(self, record: EventRecord, is_new: bool) -> None:
        self.events += 1
        if self.fails:
            raise RuntimeError("out of paint")


def make(answer: Callable[[Input], list[Instruction]]) -> tuple[Dispatch, MadeMachine, Notes, Notes]:
    machine, store, desk = MadeMachine(answer), Notes(), Notes()
    return Dispatch(machine, store, desk, lambda: NOW), machine, store, desk


def on_tick(*instructions: Instruction) -> Callable[[Input], list[Instruction]]:
    return lambda event: list(instructions) if isinstance(event, inputs.Ticked) else []


def test_b27_a_failing_sink_is_counted_and_said_once_and_harms_nobody():
    dispatch, machine, store, _ = make(on_tick(outputs.PublishEvent(EVENT, is_new=True)))
    broken, whole = NotingSink("broken", fails=True), NotingSink("whole")
    dispatch.sinks = [broken, whole]
    dispatch.apply([inputs.Ticked(), inputs.Ticked()])
    assert (broken.events, whole.events) == (2, 2)
    assert store.calls == [("event", (EVENT,))] * 2
    assert dispatch.failures == {"broken": 2}
    assert machine.seen[2:] == [inputs.SinkFailed("broken", "RuntimeError: out of paint")]


EVERY_CALL = {
    "push_window": outputs.PublishPoints(batch([(0, 0, 0, 1.0)])),
    "push_run": outputs.PublishRun(),
    "push_epoch": outputs.PublishEpoch(EPOCH),
    "push_event": outputs.PublishEvent(EVENT, is_new=True),
    "push_resources": outputs.PublishResources(ResourceRecord(time=1.0, path="root", host=None, rank=None)),
    "register_port": outputs.RegisterPort(7117),
    "set_graph": outputs.SetGraph("<svg/>", None, None, None),
    "set_metadata": outputs.SetMetadata("{}"),
    "set_hardware": outputs.SetHardware("a: CPU"),
}


@pytest.mark.parametrize("call", EVERY_CALL)
def test_b27_every_call_of_a_sink_is_infallible_for_the_caller(call: str):
    dispatch, machine, _, _ = make(on_tick(EVERY_CALL[call]))
    heard: list[str] = []

    class Sink(QuietSink):
        def __init__(self, name: str, error: Exception | None) -> None:
            self.name, self._error = name, error

        def __getattribute__(self, name: str) -> Any:
            if name != call:
                return super().__getattribute__(name)
            return self._take

        def _take(self, *_: Any) -> None:
            heard.append(self.name)
            if self._error is not None:
                raise self._error

    dispatch.sinks = [Sink("broken", RecursionError("too deep")), Sink("whole", None)]
    for _ in range(3):
        dispatch.apply([inputs.Ticked()])
    assert heard == ["broken", "whole"] * 3
    assert dispatch.failures == {"broken": 3}
    assert [event for event in machine.seen if isinstance(event, inputs.SinkFailed)] == [
        inputs.SinkFailed("broken", "RecursionError: too deep")
    ]


def test_a_fault_of_the_run_state_loses_one_input_and_is_said():
    def answer(event: Input) -> list[Instruction]:
        if isinstance(event, inputs.Ticked):
            raise KeyError("rank 7")
        return []

    dispatch, machine, _, _ = make(answer)
    dispatch.apply([inputs.Ticked(), inputs.StoreRecovered()])
    assert machine.seen[1] == inputs.StoreRecovered()
    assert isinstance(machine.seen[2], inputs.SinkFailed)
    assert dispatch.failures["run state"] == 1


def test_a_store_that_fails_does_not_keep_the_page_from_its_news():
    dispatch, _, store, _ = make(on_tick(outputs.PublishEvent(EVENT, is_new=True)))
    sink = NotingSink("page")
    dispatch.sinks = [sink]
    store.event = None  # type: ignore[attr-defined]
    dispatch.apply([inputs.Ticked()])
    assert sink.events == 1
    assert dispatch.failures["controller"] == 1


@pytest.mark.parametrize(
    "instruction",
    [
        outputs.Reply(b"s", messages.Ack(durable_seq=1)),
        outputs.PrintLine("x"),
        outputs.CompleteRun(),
        outputs.RegisterPort(7117),
    ],
)
def test_while_the_journal_is_replayed_nobody_is_answered(instruction):
    dispatch, _, _, desk = make(on_tick(instruction))
    ports: list[int | None] = []

    class Page(QuietSink):
        def register_port(self, port: int | None) -> None:
            ports.append(port)

    dispatch.sinks = [Page()]
    dispatch.replaying = True
    dispatch.apply([inputs.Ticked()])
    assert (desk.calls, ports) == ([], [])
    dispatch.replaying = False
    dispatch.apply([inputs.Ticked()])
    assert len(desk.calls) + len(ports) == 1


def test_everything_that_must_survive_reaches_the_store():
    dispatch, _, store, desk = make(
        on_tick(outputs.DefineRank(1, 2, "root/a/rank1"), outputs.DefineMetric(3, "loss", "mean"), outputs.PublishRun())
    )
    dispatch.apply([inputs.Ticked()])
    assert store.calls == [("define_rank", (1, 2, "root/a/rank1")), ("define_metric", (3, "loss"))]
    assert [name for name, _ in desk.calls] == ["define_rank", "define_metric", "run_changed"]
