"""A run machine with hands: say what happens, look at what it says."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from trackside.run import inputs, outputs
from trackside.run.inputs import Moment
from trackside.run.machine import RunMachine
from trackside.run.state import Settings
from trackside.wire import documents, messages
from trackside.wire.columns import PointBatch

WALL = 1_700_000_000.0


class Play:
    """One run, its time in seconds since it began, and every instruction so far."""

    def __init__(self, **settings: Any) -> None:
        self.at = 0.0
        self.skew = 0.0
        """How far the controller's wall clock has jumped."""
        self.machine = RunMachine.begin(
            run_id="r1",
            name="digits",
            directory="/runs/r1",
            version="0",
            settings=Settings(**settings),
            started=Moment(WALL, 1000.0),
        )
        self.said: list[outputs.Instruction] = []

    @property
    def now(self) -> Moment:
        return Moment(WALL + self.at + self.skew, 1000.0 + self.at)

    def do(self, event: inputs.Input) -> list[outputs.Instruction]:
        out = self.machine.handle(event, self.now)
        self.said += out
        return out

    def wait(self, seconds: float) -> list[outputs.Instruction]:
        self.at += seconds
        return self.do(inputs.Ticked())

    # --- people ------------------------------------------------------------------------------------------------------

    def hello(
        self,
        rank: int = 0,
        world: int = 2,
        host: str = "a",
        *,
        generation: int = 0,
        local: int | None = None,
        machine: str | None = None,
        key: bytes | None = None,
        uptime: float = 0.0,
        resources: bool = True,
    ) -> bytes:
        session = key or f"s{generation}-{rank}".encode().ljust(16, b".")
        identity = messages.Identity(
            rank=rank, local_rank=rank if local is None else local, world_size=world, generation=generation
        )
        self.do(inputs.SessionOpened(_hello(session, "rank", identity, host, machine, uptime, resources)))
        return session

    def agent(self, host: str = "a") -> bytes:
        session = f"agent-{host}".encode().ljust(16, b".")
        self.do(inputs.SessionOpened(_hello(session, "agent", None, host, None)))
        return session

    def tell(self, session: bytes, message: messages.Message) -> list[outputs.Instruction]:
        return self.do(inputs.MessageArrived(session, message))

    def beat(self, session: bytes, **fields: Any) -> list[outputs.Instruction]:
        return self.tell(session, messages.Heartbeat(sent_at=self.now.wall, uptime_seconds=self.at, **fields))

    def metric(self, number: int, name: str, reduction: messages.Reduction = "mean") -> None:
        self.do(inputs.MetricAppeared(number, name, None, reduction))

    def points(self, rows: list[tuple[int, int, int, float]], generation: int = 0) -> list[outputs.Instruction]:
        """Rows of (metric, rank, step, value)."""
        return self.do(inputs.PointsArrived(batch(rows, generation)))

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def run(self) -> documents.RunDocument:
        return self.machine.run_document(self.now)

    @property
    def ranks(self) -> list[documents.RankEntry]:
        return self.machine.rank_entries(self.now)

    def states(self) -> list[str]:
        return [entry.state for entry in self.ranks]

    def events(self, kind: str | None = None) -> list[documents.EventRecord]:
        return [e for e in self.machine.event_records() if kind in (None, e.kind)]

    def asked(self, kind: type[Any]) -> list[Any]:
        return [instruction for instruction in self.said if isinstance(instruction, kind)]


def batch(rows: list[tuple[int, int, int, float]], generation: int = 0) -> PointBatch:
    metric, rank, step, value = zip(*rows, strict=True)
    count = len(rows)
    return PointBatch(
        metric=np.array(metric, np.int32),
        rank=np.array(rank, np.int32),
        generation=np.full(count, generation, np.int32),
        epoch=np.full(count, -1, np.int32),
        step=np.array(step, np.int64),
        time=np.array([WALL + s for s in step], np.float64),
        value=np.array(value, np.float64),
    )


def _hello(
    session: bytes,
    role: messages.Role,
    identity: messages.Identity | None,
    host: str,
    machine: str | None,
    uptime: float = 0.0,
    resources: bool = True,
) -> messages.Hello:
    return messages.Hello(
        session=session,
        role=role,
        run="r1",
        identity=identity,
        host=messages.HostFacts(host=host, machine_id=machine or f"m-{host}"),
        process=messages.ProcessFacts(pid=4000 + (identity.rank if identity else 0)),
        sent_at=WALL,
        uptime_seconds=uptime,
        resources=resources,
    )


def graph(
    label: str = "net", *, recorded: bool = False, note: str | None = None, **fields: Any
) -> documents.GraphDocument:
    """A model of two layers."""
    flow = documents.GraphEdge(source=1, target=2, tensor=documents.TensorSpec(shape=[4, 8], dtype="float32"))
    whole: dict[str, Any] = {
        "label": label,
        "hash": "h",
        "parameters": documents.GraphParameters(total=10, trainable=10, frozen=0),
        "recorded": recorded,
        "note": note,
        "nodes": [
            documents.GraphNode(id=0, name="", type=label, parent=None, parameters=10),
            documents.GraphNode(id=1, name="a", type="Linear", parent=0, parameters=4),
            documents.GraphNode(id=2, name="b", type="Linear", parent=0, parameters=6),
        ],
        "edges": [flow] if recorded else [],
    }
    return documents.GraphDocument(**{**whole, **fields})


def graph_message(document: documents.GraphDocument) -> messages.SetGraph:
    raw = msgspec.Raw(msgspec.msgpack.encode(document))
    return messages.SetGraph(graph=raw, label=document.label, hash=document.hash)
