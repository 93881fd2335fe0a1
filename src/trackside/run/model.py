"""The watched model in the run's state: its graph, and what its modules cost on the slowest rank."""

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from trackside.run.outputs import Instruction
from trackside.run.state import Rank, Run
from trackside.wire.documents import GraphDocument, GraphNode, TensorSpec
from trackside.wire.messages import ModuleTimes

MOST_NODES = 4_096
MOST_EDGES = 32_768
MOST_NAME = 400
MOST_SPECS = 16
MOST_DIMENSIONS = 64
MOST_SHARERS = 256
MOST_TIMED_RANKS = 32
"""Ranks whose times are kept; the slowest ones, since no other is shown."""
CLEARLY_SLOWER = 1.05
"""How much slower another rank has to be before its times are shown instead."""


def read_graph(raw: msgspec.Raw) -> tuple[GraphDocument | None, str | None]:
    """The graph that a rank has sent, and why there is none when it cannot be taken; both None for an empty message."""
    try:
        graph = msgspec.msgpack.decode(raw, type=GraphDocument | None)
    except (msgspec.DecodeError, RecursionError, OverflowError, ValueError, TypeError) as error:
        return None, str(error)[:200]
    problem = None if graph is None else next(_problems(graph), None)
    return (None, problem) if problem else (graph, None)


def _problems(graph: GraphDocument) -> Iterator[str]:
    size = len(graph.nodes)
    if not 0 < size <= MOST_NODES or len(graph.edges) > MOST_EDGES:
        yield f"{size:,} nodes and {len(graph.edges):,} edges"
        return
    if len(graph.label or "") > MOST_NAME or len(graph.hash or "") > MOST_NAME or len(graph.note or "") > 2_000:
        yield "a label, hash or note that is too long"
    for number, node in enumerate(graph.nodes):
        is_placed = node.parent is None if number == 0 else node.parent is not None and 0 <= node.parent < number
        if node.id != number or not is_placed:
            yield f"node {number} has no place in the tree"
        if not _is_modest(node) or not all(0 <= other < size for other in node.shared_with):
            yield f"node {number} is not what it should be"
    for edge in graph.edges:
        if not (0 <= edge.source < size and 0 <= edge.target < size):
            yield "an edge without an end"
        if edge.tensor is not None and not _is_tensor(edge.tensor):
            yield "a tensor that is none"


def _is_modest(node: GraphNode) -> bool:
    return (
        len(node.name) <= MOST_NAME
        and len(node.type) <= MOST_NAME
        and len(node.shared_with) <= MOST_SHARERS
        and len(node.inputs) <= MOST_SPECS
        and len(node.outputs) <= MOST_SPECS
        and all(map(_is_tensor, (*node.inputs, *node.outputs)))
        and node.forward_seconds is None
        and node.backward_seconds is None
    )


def _is_tensor(spec: TensorSpec) -> bool:
    return len(spec.shape) <= MOST_DIMENSIONS and len(spec.dtype) <= MOST_NAME


def is_fuller(new: GraphDocument, kept: GraphDocument) -> bool:
    """Whether a graph may take the place of one of the same structure: it knows more of the pass."""
    if not new.recorded or (kept.hash is not None and new.hash != kept.hash) or new.label != kept.label:
        return False
    return not kept.recorded or (kept.note is not None and new.note is None)


def take_times(run: Run, session: bytes, message: ModuleTimes) -> list[Instruction]:
    """Keep what a rank's modules cost, and choose the rank whose times are shown."""
    known = run.sessions[session]
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or rank.generation != known.generation or not _is_whole(message):
        return []
    run.module_times[rank.rank] = message
    run.timed_rank = _slowest(run)
    if len(run.module_times) > MOST_TIMED_RANKS:
        pace = _pace(run)
        gone = min((number for number in run.module_times if number != run.timed_rank), key=lambda n: pace.get(n, -1.0))
        del run.module_times[gone]
    return []


def _is_whole(message: ModuleTimes) -> bool:
    """Whether its columns fit together."""
    count, rest = divmod(len(message.module), 4)
    return (
        rest == 0
        and 0 < count <= MOST_NODES
        and len(message.forward) == len(message.backward) == 8 * count
        and len(message.memory) in (0, 8 * count)
        and message.passes > 0
    )


def _slowest(run: Run) -> int | None:
    pace = _pace(run)
    if not pace:
        return None
    slowest = max(pace, key=pace.__getitem__)
    shown = run.timed_rank
    is_clear = shown not in pace or pace[slowest] > CLEARLY_SLOWER * pace[shown]
    return slowest if is_clear else shown


def _pace(run: Run) -> dict[int, float]:
    """Seconds of a step by rank, for ranks that have times: their own ones where all of them tell, else the model's."""
    timed = [rank for number in run.module_times if (rank := run.ranks.get(number)) is not None]
    own = [rank.own_step_seconds for rank in timed]
    if None not in own:
        return {rank.rank: seconds or 0.0 for rank, seconds in zip(timed, own, strict=True)}
    return {rank.rank: _of_model(run, rank) for rank in timed}


def _of_model(run: Run, rank: Rank) -> float:
    message = run.module_times[rank.rank]
    columns = (np.frombuffer(column, "<f8") for column in (message.forward, message.backward))
    return sum(float(column[np.isfinite(column)].max(initial=0.0)) for column in columns)


class GraphView:
    """The graph with the times in it, made again only when something of it has changed."""

    def __init__(self) -> None:
        self._of: tuple[GraphDocument | None, ModuleTimes | None, int | None] = (None, None, None)
        self._made: GraphDocument | None = None

    def of(self, run: Run) -> GraphDocument | None:
        """The run's graph; None: there is none."""
        graph, rank = run.graph, run.timed_rank
        times = None if rank is None else run.module_times.get(rank)
        if graph is None or (times is not None and times.graph not in (None, graph.hash)):
            times = None
        was = self._of
        if was[0] is not graph or was[1] is not times or was[2] != rank:
            self._of = (graph, times, rank)
            self._made = graph if graph is None or times is None else with_times(graph, times, rank)
        return self._made


def with_times(graph: GraphDocument, times: ModuleTimes, rank: int | None) -> GraphDocument:
    """The graph with one rank's times; what is not known, or is no time, is absent."""
    nodes = list(graph.nodes)
    places = np.frombuffer(times.module, "<u4").tolist()
    forward = np.frombuffer(times.forward, "<f8").tolist()
    backward = np.frombuffer(times.backward, "<f8").tolist()
    memory = np.frombuffer(times.memory, "<i8").tolist() or [-1] * len(places)
    for place, ahead, behind, left in zip(places, forward, backward, memory, strict=True):
        if place < len(nodes):
            nodes[place] = msgspec.structs.replace(
                nodes[place],
                forward_seconds=_seconds(ahead),
                backward_seconds=_seconds(behind),
                memory=left if left >= 0 else nodes[place].memory,
            )
    return msgspec.structs.replace(graph, nodes=nodes, passes=times.passes, on_device=times.on_device, timed_rank=rank)


def _seconds(value: float) -> float | None:
    return value if math.isfinite(value) and value >= 0 else None
