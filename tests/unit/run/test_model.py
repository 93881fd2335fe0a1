"""The watched model in the run's state: which graph is kept, whose times are shown."""

from __future__ import annotations

import math
from array import array
from typing import Any

import msgspec
import pytest

from tests.unit.run.play import Play, graph, graph_message
from trackside.run.machine import RunMachine
from trackside.run.model import MOST_NODES, MOST_TIMED_RANKS
from trackside.wire import documents, messages


def times(
    ahead: list[float], *, behind: list[float] | None = None, ids: list[int] | None = None, **fields: Any
) -> messages.ModuleTimes:
    whole: dict[str, Any] = {
        "passes": 5,
        "module": array("I", ids if ids is not None else range(len(ahead))).tobytes(),
        "forward": array("d", ahead).tobytes(),
        "backward": array("d", behind or [math.nan] * len(ahead)).tobytes(),
        "graph": "h",
    }
    return messages.ModuleTimes(**{**whole, **fields})


def shown(play: Play) -> documents.GraphDocument:
    document = play.machine.graph()
    assert document is not None
    return document


def test_b22_a_recorded_pass_takes_the_place_of_the_bare_tree_and_only_of_that() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, graph_message(graph(note="not yet")))
    assert shown(play) == graph(note="not yet")
    play.tell(one, graph_message(graph(recorded=True, hash="other")))
    assert not shown(play).recorded, "another structure"
    assert len(play.events("hash mismatch")) == 1
    play.tell(one, graph_message(graph(recorded=True, note="without gradients")))
    assert shown(play).note == "without gradients"
    play.tell(zero, graph_message(graph(note="not yet")))
    assert shown(play).recorded, "a late tree"
    play.tell(zero, graph_message(graph(recorded=True)))
    assert shown(play).note is None, "a whole one instead of one that lacks something"
    whole = shown(play)
    play.tell(one, graph_message(graph(recorded=True, edges=[])))
    assert shown(play) is whole


def test_b22_a_lazy_models_graph_gets_its_hash_with_the_first_pass() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, graph_message(graph(hash=None)))
    assert play.run.hash is None
    play.tell(session, graph_message(graph(recorded=True)))
    assert (play.run.hash, shown(play).recorded, play.run.label) == ("h", True, "net")
    assert play.events("hash mismatch") == []


BAD = {
    "no nodes": {"nodes": []},
    "too many nodes": {
        "nodes": [documents.GraphNode(id=n, name="x", type="x", parent=0 if n else None) for n in range(MOST_NODES + 1)]
    },
    "a child before its parent": {"nodes": [documents.GraphNode(id=0, name="", type="x", parent=1)]},
    "an id that is no place": {"nodes": [documents.GraphNode(id=7, name="", type="x", parent=None)]},
    "an edge to nowhere": {"edges": [documents.GraphEdge(source=0, target=9)]},
    "an edge from before": {"edges": [documents.GraphEdge(source=-1, target=0)]},
    "a name without end": {"nodes": [documents.GraphNode(id=0, name="x" * 5000, type="x", parent=None)]},
    "sharers that are not there": {
        "nodes": [documents.GraphNode(id=0, name="", type="x", parent=None, shared_with=[3])]
    },
    "times of its own": {"nodes": [documents.GraphNode(id=0, name="", type="x", parent=None, forward_seconds=1.0)]},
    "a shape without end": {
        "edges": [documents.GraphEdge(source=0, target=1, tensor=documents.TensorSpec(shape=[1] * 99, dtype="float32"))]
    },
}


@pytest.mark.parametrize("problem", BAD)
def test_a_graph_that_is_none_is_refused_and_says_so(problem: str) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, graph_message(graph(**BAD[problem])))
    assert play.machine.graph() is None
    (event,) = play.events("graph refused")
    assert "cannot be read" in event.text
    play.tell(session, graph_message(graph()))
    assert shown(play) == graph()


def test_the_slowest_ranks_times_are_shown_and_what_is_unknown_is_absent() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, graph_message(graph(recorded=True)))
    assert (shown(play).passes, shown(play).timed_rank) == (0, None)
    play.tell(zero, times([0.3, 0.1, math.nan], behind=[0.6, math.inf, -1.0]))
    document = shown(play)
    assert (document.passes, document.timed_rank, document.on_device) == (5, 0, False)
    assert [(node.forward_seconds, node.backward_seconds) for node in document.nodes] == [
        (0.3, 0.6),
        (0.1, None),
        (None, None),
    ]
    assert shown(play) is document, "made again only when something has changed"
    play.tell(one, times([0.4, 0.1, 0.1], behind=[0.7, 0.1, 0.1], on_device=True, passes=9))
    assert (shown(play).timed_rank, shown(play).passes, shown(play).on_device) == (1, 9, True)
    play.tell(zero, times([0.41, 0.1, 0.1], behind=[0.71, 0.1, 0.1]))
    assert shown(play).timed_rank == 1, "about as slow is not slower"
    play.tell(zero, times([0.5, 0.1, 0.1], behind=[0.9, 0.1, 0.1]))
    assert shown(play).timed_rank == 0


def test_own_step_time_decides_where_all_ranks_tell_it() -> None:
    play = Play()
    sessions = [play.hello(rank) for rank in (0, 1)]
    play.tell(sessions[0], graph_message(graph(recorded=True)))
    for session, own in zip(sessions, (0.2, 0.9), strict=True):
        play.beat(session, own_step_seconds=own, step_seconds=1.0)
    play.tell(sessions[1], times([0.1]))
    play.tell(sessions[0], times([0.5]))
    assert shown(play).timed_rank == 1


def test_times_of_another_structure_or_without_sense_are_not_shown() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, graph_message(graph(recorded=True)))
    for odd in (
        times([0.1], graph="other"),
        times([0.1], module=b"abc"),
        times([0.1], forward=b""),
        times([0.1], passes=0),
        times([]),
        times([0.1], memory=b"12345678" * 2),
        times([0.1, 0.2], ids=[77, 4_000_000_000]),
    ):
        play.tell(session, odd)
        assert [node.forward_seconds for node in shown(play).nodes] == [None] * 3


def test_memory_that_a_device_tells_is_shown() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, graph_message(graph(recorded=True)))
    play.tell(session, times([0.1, 0.1], memory=array("q", [4096, -1]).tobytes()))
    assert [node.memory for node in shown(play).nodes] == [4096, None, None]


def test_of_a_thousand_ranks_only_the_slowest_are_kept() -> None:
    play = Play()
    for rank in range(1000):
        session = play.hello(rank, world=1000)
        if rank == 0:
            play.tell(session, graph_message(graph(recorded=True)))
        play.tell(session, times([1.0 + (rank * 7919 % 1000)]))
    assert len(play.machine.state.module_times) == MOST_TIMED_RANKS
    slowest = max(range(1000), key=lambda rank: rank * 7919 % 1000)
    assert slowest in play.machine.state.module_times
    expected = 1.0 + (slowest * 7919 % 1000)
    assert (shown(play).nodes[0].forward_seconds or 0) > expected / 1.06


def test_a_new_generation_begins_without_times() -> None:
    play = Play()
    play.tell(play.hello(0, world=1), graph_message(graph(recorded=True)))
    play.tell(play.hello(0, world=1), times([0.5]))
    assert shown(play).timed_rank == 0
    play.hello(0, world=1, generation=1)
    assert shown(play).nodes[0].forward_seconds is None


def test_a_snapshot_keeps_graph_and_times() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, graph_message(graph(recorded=True)))
    play.tell(session, times([0.5, 0.2]))
    again = RunMachine.restore(play.machine.snapshot())
    assert again.graph() == shown(play)
    assert msgspec.json.decode(msgspec.json.encode(again.graph()), type=documents.GraphDocument) == shown(play)
