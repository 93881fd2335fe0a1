"""The module that costs a rank more than its peers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.run.diagnose.simulate import Job, Watch, slower
from trackside.run.diagnose.modules import costliest_module
from trackside.run.state import Run
from trackside.wire.documents import GraphDocument, GraphNode, GraphParameters
from trackside.wire.messages import ModuleTimes

NAMES = ["", "encoder", "encoder.0", "encoder.1", "head"]
PARENTS = [None, 0, 1, 1, 0]
USUAL = [0.10, 0.08, 0.04, 0.04, 0.02]


def times(forward: list[float]) -> ModuleTimes:
    return ModuleTimes(
        passes=5,
        module=np.arange(len(forward), dtype="<u4").tobytes(),
        forward=np.array(forward, "<f8").tobytes(),
        backward=np.array([2 * seconds for seconds in forward], "<f8").tobytes(),
    )


@pytest.fixture
def watch() -> Watch:
    made = Watch(Job(ranks=3, seed=1, faults=[slower(1, "forward", 0.6, 20)]))
    nodes = [
        GraphNode(id=at, name=name, type="Module", parent=parent)
        for at, (name, parent) in enumerate(zip(NAMES, PARENTS, strict=True))
    ]
    made.run.graph = GraphDocument(
        label=None,
        hash=None,
        parameters=GraphParameters(total=0, trainable=0, frozen=0),
        recorded=True,
        nodes=nodes,
        edges=[],
    )
    made.run.module_times = {0: times(USUAL), 2: times(USUAL)}
    return made


def costly(run: Run, forward: list[float], phase: str | None = "forward") -> str | None:
    run.module_times[1] = times(forward)
    return costliest_module(run, 1, phase)


def test_the_deepest_module_that_holds_most_of_it(watch: Watch) -> None:
    assert costly(watch.run, [0.17, 0.15, 0.04, 0.11, 0.02]) == "encoder.1"
    assert costly(watch.run, [0.17, 0.15, 0.04, 0.11, 0.02], "backward") == "encoder.1"
    assert costly(watch.run, [0.16, 0.14, 0.07, 0.07, 0.02]) == "encoder"
    assert costly(watch.run, [0.13, 0.08, 0.04, 0.04, 0.05]) == "head"


def test_where_none_stands_out_none_is_named(watch: Watch) -> None:
    assert costly(watch.run, USUAL) is None
    assert costly(watch.run, [0.14, 0.10, 0.05, 0.05, 0.04]) is None, "the whole model"
    assert costly(watch.run, [0.17, 0.15, 0.04, 0.11, 0.02], "data") is None
    assert costly(watch.run, [float("nan")] * 5) is None
    watch.run.module_times = {1: times(USUAL)}
    assert costliest_module(watch.run, 1, "forward") is None
    watch.run.graph = None
    assert costliest_module(watch.run, 1, "forward") is None


def test_it_stands_in_the_verdict(watch: Watch) -> None:
    watch.run.module_times[1] = times([0.17, 0.15, 0.04, 0.11, 0.02])
    watch.watch(60)
    (verdict,) = watch.diagnoser.book.open
    assert (verdict.phase, verdict.module) == ("forward", "encoder.1")
    assert "mostly in `encoder.1`" in verdict.text
