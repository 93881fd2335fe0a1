"""The tree root -> host -> rank, every inner node summed up from what lies below it."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

import msgspec

from trackside.run.epochs import metric_order, reduce_values
from trackside.wire.documents import MetricEntry, NodeMetric, RankEntry, TreeNode
from trackside.wire.ids import ROOT_PATH, host_path
from trackside.wire.messages import Reduction
from trackside.wire.values import to_json_number

Figure = TypeVar("Figure", int, float)

WAITING_PHASES = ("collective", "waiting")
Level = Literal["root", "host", "rank"]
LastValue = tuple[str, int, str, float]
"""(metric, rank, host, latest value), as `RunMachine.last_values` has them."""


class _Leaf(msgspec.Struct):
    entry: RankEntry
    values: dict[str, float]


def tree_of(ranks: Sequence[RankEntry], metrics: Iterable[MetricEntry], values: Iterable[LastValue]) -> TreeNode:
    """The root with everything below it.

    Args:
        ranks: of the run, by number.
        metrics: all of them, for how each is reduced.
        values: latest ones.
    """
    reductions: dict[str, Reduction] = {metric.name: metric.reduction for metric in metrics}
    leaves = {entry.rank: _Leaf(entry, {}) for entry in ranks}
    for name, rank, _, value in values:
        if rank in leaves:
            leaves[rank].values[name] = value
    below = list(leaves.values())
    hosts = list(dict.fromkeys(leaf.entry.host for leaf in below if leaf.entry.host is not None))
    children: list[TreeNode] = []
    for host in hosts if len(hosts) > 1 else ():
        own = [leaf for leaf in below if leaf.entry.host == host]
        rows = [_rank_node(leaf, reductions) for leaf in own]
        children.append(_node(host_path(host), "host", host, own, reductions, rows))
    alone = [leaf for leaf in below if len(hosts) < 2 or leaf.entry.host is None]
    children += [_rank_node(leaf, reductions) for leaf in alone]
    return _node(ROOT_PATH, "root", ROOT_PATH, below, reductions, children)


def _rank_node(leaf: _Leaf, reductions: dict[str, Reduction]) -> TreeNode:
    entry = leaf.entry
    return _node(entry.path, "rank", entry.label, [leaf], reductions, [])


def _node(
    path: str, level: Level, name: str, below: list[_Leaf], reductions: dict[str, Reduction], children: list[TreeNode]
) -> TreeNode:
    entries = [leaf.entry for leaf in below]
    gpus = [entry.gpu for entry in entries if entry.gpu is not None]
    return TreeNode(
        path=path,
        level=level,
        name=name,
        ranks=len(below),
        samples=_fold(sum, [entry.samples for entry in entries]),
        throughput=_fold(sum, [entry.throughput for entry in entries]),
        batch_share=_fold(math.fsum, [entry.batch_share for entry in entries]),
        memory=_fold(sum, [entry.memory for entry in entries]),
        vram_used=_fold(sum, [gpu.memory_used for gpu in gpus]),
        vram_total=_fold(sum, [gpu.memory_total for gpu in gpus]),
        step_seconds=_fold(max, [entry.step_seconds for entry in entries]),
        own_step_seconds=_fold(max, [entry.own_step_seconds for entry in entries]),
        data_seconds=_fold(max, [entry.phases.get("data") for entry in entries]),
        waiting_seconds=_fold(max, [_waiting(entry) for entry in entries]),
        gpu_util=_fold(_mean, [gpu.util for gpu in gpus]),
        gpu_util_peak=_fold(max, [gpu.util_peak for gpu in gpus]),
        metrics=_metrics(below, reductions),
        children=children,
    )


def _metrics(below: list[_Leaf], reductions: dict[str, Reduction]) -> dict[str, NodeMetric]:
    holders: dict[str, list[_Leaf]] = {}
    for leaf in below:
        for name in leaf.values:
            holders.setdefault(name, []).append(leaf)
    return {name: _metric(name, holders[name], reductions) for name in sorted(holders, key=metric_order)}


def _metric(name: str, having: list[_Leaf], reductions: dict[str, Reduction]) -> NodeMetric:
    shares = [leaf.entry.batch_share for leaf in having]
    weights = [share for share in shares if share]
    if len(weights) < len(having):
        weights = [1.0] * len(having)
    pairs = [(leaf.values[name], weight) for leaf, weight in zip(having, weights, strict=True)]
    reduction = reductions.get(name, "mean")
    value = to_json_number(reduce_values(pairs, reduction))
    return NodeMetric(value=value, reduction=reduction, ranks=len(having))


def _waiting(entry: RankEntry) -> float | None:
    known = [entry.phases[name] for name in WAITING_PHASES if name in entry.phases]
    return sum(known) if known else None


def _fold(how: Callable[[list[Figure]], Figure], values: Sequence[Figure | None]) -> Figure | None:
    """What is known of the values, reduced; None when nothing is."""
    known = [value for value in values if value is not None]
    return how(known) if known else None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
