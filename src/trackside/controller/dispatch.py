"""Carries out what the run state asks for. What fails here is counted and said; it never stops the run."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from trackside.run import outputs
from trackside.run.inputs import Input, Moment, SinkFailed
from trackside.run.machine import RunMachine
from trackside.run.outputs import Instruction
from trackside.sinks.protocol import Sink
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord
from trackside.wire.messages import Downward, Reduction

log = logging.getLogger("trackside.controller")


class Store(Protocol):
    """What keeps the run."""

    def points(self, batch: PointBatch) -> None: ...
    def define_metric(self, metric: int, name: str) -> None: ...
    def define_rank(self, rank: int, generation: int, path: str) -> None: ...
    def event(self, record: EventRecord) -> None: ...
    def resource(self, record: ResourceRecord) -> None: ...
    def epoch(self, record: EpochRecord) -> None: ...


class Desk(Protocol):
    """What the controller itself does about an instruction."""

    def reply(self, session: bytes, message: Downward) -> None: ...
    def define_metric(self, metric: int, name: str, reduction: Reduction) -> None: ...
    def define_rank(self, rank: int, generation: int, path: str) -> None: ...
    def run_changed(self) -> None: ...
    def graph_set(self, svg: str | None, graph: object | None) -> None: ...
    def print_line(self, line: str) -> None: ...
    def complete(self) -> None: ...


class Dispatch:
    """Joins the run state with everything that acts.

    Args:
        machine: of the run.
        store: keeps it.
        desk: the controller.
        now: the present moment.

    Threads: the event loop's only.
    """

    def __init__(self, machine: RunMachine, store: Store, desk: Desk, now: Callable[[], Moment]) -> None:
        self.sinks: list[Sink] = []
        self.failures: Counter[str] = Counter()
        """By sink, `store` and `run state` among them."""
        self.replaying = False
        """Whether inputs come from the journal: nobody is answered, nothing is printed or opened."""
        self._machine = machine
        self._store = store
        self._desk = desk
        self._now = now
        self._said: set[str] = set()
        self._failed: list[Input] = []

    def apply(self, inputs: Sequence[Input], moment: Moment | None = None) -> None:
        """Give inputs to the run state and carry out what it asks for, in order.

        Args:
            inputs: in order.
            moment: when they happened; None: now.
        """
        moment = moment or self._now()
        for event in inputs:
            self._apply_one(event, moment)
        while self._failed:
            failed, self._failed = self._failed, []
            for event in failed:
                self._apply_one(event, moment)

    def fail(self, name: str, reason: str) -> None:
        """A sink has failed; the page says so once."""
        self.failures[name] += 1
        if name not in self._said:
            self._said.add(name)
            self._failed.append(SinkFailed(name, reason))

    def _apply_one(self, event: Input, moment: Moment) -> None:
        try:
            instructions = self._machine.handle(event, moment)
        except Exception as error:
            log.exception("the run state failed on %s", type(event).__name__)
            self.fail("run state", f"{type(event).__name__}: {type(error).__name__}: {error}")
            return
        for instruction in instructions:
            self._execute(instruction)

    def _execute(self, instruction: Instruction) -> None:
        try:
            self._for_controller(instruction)
        except Exception as error:
            log.exception("the controller failed on %s", type(instruction).__name__)
            self.fail("controller", f"{type(instruction).__name__}: {type(error).__name__}: {error}")
        if type(instruction) not in _FOR_SINKS or (self.replaying and isinstance(instruction, outputs.RegisterPort)):
            return
        for sink in self.sinks:
            try:
                _for_sink(sink, instruction)
            except Exception as error:
                log.exception("the sink %s failed", sink.name)
                self.fail(sink.name, f"{type(error).__name__}: {error}")

    def _for_controller(self, instruction: Instruction) -> None:
        store, desk = self._store, self._desk
        match instruction:
            case outputs.PublishPoints(batch):
                store.points(batch)
            case outputs.PublishEpoch(record):
                store.epoch(record)
            case outputs.PublishEvent(record):
                store.event(record)
            case outputs.PublishResources(record):
                store.resource(record)
            case outputs.DefineRank(rank, generation, path):
                store.define_rank(rank, generation, path)
                desk.define_rank(rank, generation, path)
            case outputs.DefineMetric(metric, name, reduction):
                store.define_metric(metric, name)
                desk.define_metric(metric, name, reduction)
            case outputs.PublishRun():
                desk.run_changed()
            case outputs.SetGraph(svg, graph):
                desk.graph_set(svg, graph)
            case _ if not self.replaying:
                self._for_people(instruction)

    def _for_people(self, instruction: Instruction) -> None:
        match instruction:
            case outputs.Reply(session, message):
                self._desk.reply(session, message)
            case outputs.PrintLine(line):
                self._desk.print_line(line)
            case outputs.CompleteRun():
                self._desk.complete()


_FOR_SINKS = frozenset(
    {
        outputs.PublishPoints,
        outputs.PublishRun,
        outputs.PublishEpoch,
        outputs.PublishEvent,
        outputs.PublishResources,
        outputs.RegisterPort,
        outputs.SetGraph,
        outputs.SetMetadata,
        outputs.SetHardware,
    }
)


def _for_sink(sink: Sink, instruction: Instruction) -> None:
    match instruction:
        case outputs.PublishPoints(batch):
            sink.push_window(batch)
        case outputs.PublishRun():
            sink.push_run()
        case outputs.PublishEpoch(record):
            sink.push_epoch(record)
        case outputs.PublishEvent(record, is_new):
            sink.push_event(record, is_new)
        case outputs.PublishResources(record):
            sink.push_resources(record)
        case outputs.RegisterPort(port):
            sink.register_port(port)
        case outputs.SetGraph(svg, graph, label, hash):
            sink.set_graph(svg, graph, label, hash)
        case outputs.SetMetadata(text):
            sink.set_metadata(text)
        case outputs.SetHardware(text):
            sink.set_hardware(text)
