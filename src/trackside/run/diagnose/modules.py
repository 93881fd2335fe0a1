"""Which module costs a rank more than its peers."""

import numpy as np

from trackside.run.diagnose.entries import Array
from trackside.run.diagnose.peers import column_medians
from trackside.run.state import Run
from trackside.wire.documents import GraphDocument
from trackside.wire.messages import ModuleTimes

IN_MODULES = ("forward", "backward")
"""Phases that are spent in modules."""
MOST_OF_IT = 0.6
"""Part of its parent's excess that a module must hold to be named instead of it."""
LEAST_RATIO = 1.1


def costliest_module(run: Run, rank: int, phase: str | None) -> str | None:
    """Name of the module whose time is furthest beyond that of the rank's peers; None when none stands out.

    Times hold children's, so it is looked for from the root downwards, as far as one child has most of the excess.
    """
    graph, mine = run.graph, run.module_times.get(rank)
    if phase not in IN_MODULES or graph is None or mine is None or not graph.nodes:
        return None
    peers = [times for other, times in run.module_times.items() if other != rank and other in run.ranks]
    peers = [times for times in peers if times.graph == mine.graph]
    if not peers:
        return None
    own = _seconds(mine, phase, len(graph.nodes))
    usual = column_medians(np.stack([_seconds(times, phase, len(graph.nodes)) for times in peers]))
    at = _deepest(graph, np.nan_to_num(own - usual))
    if at is None or not own[at] >= LEAST_RATIO * usual[at]:
        return None
    return graph.nodes[at].name or None


def _seconds(times: ModuleTimes, phase: str, nodes: int) -> Array:
    """Seconds by node, NaN where unknown."""
    column = np.frombuffer(times.forward if phase == "forward" else times.backward, "<f8")
    module = np.frombuffer(times.module, "<u4")
    out = np.full(nodes, np.nan)
    is_known = module < nodes
    out[module[is_known]] = column[is_known]
    return out


def _deepest(graph: GraphDocument, excess: Array) -> int | None:
    children: dict[int, list[int]] = {}
    for node in graph.nodes:
        if node.parent is not None:
            children.setdefault(node.parent, []).append(node.id)
    at = 0
    if excess[at] <= 0:  # the root may not be timed
        at = int(np.argmax(excess))
    if excess[at] <= 0:
        return None
    while below := [child for child in children.get(at, ()) if child < len(excess)]:
        worst = max(below, key=lambda child: float(excess[child]))
        if excess[worst] < MOST_OF_IT * excess[at]:
            break
        at = worst
    return at
