"""The tree root -> host -> rank: what inner nodes say of those below them."""

from typing import Any

import pytest

from tests.unit.run.play import Play
from trackside.run.tree import tree_of
from trackside.wire import messages
from trackside.wire.documents import NodeMetric, TreeNode


def tree(play: Play) -> TreeNode:
    machine = play.machine
    return tree_of(play.ranks, machine.metric_entries(), machine.last_values())


def job(*hosts: str, samples: tuple[int | None, ...] = (10, 30, 60)) -> Play:
    """One rank a host named; each worked 0.1 s a step, and as much more as its number says."""
    play = Play()
    for number, name in enumerate(["loss", "tokens", "peak"]):
        play.metric(number, name, ("mean", "sum", "max")[number])  # type: ignore[arg-type]
    sessions = [play.hello(rank, world=len(hosts), host=host, local=0) for rank, host in enumerate(hosts)]
    for second in range(3):
        for rank, session in enumerate(sessions):
            count, own = samples[rank], 0.1 * (rank + 1)
            phases = {"data": 0.01 * (3 - rank) * second, "compute": (own - 0.01 * (3 - rank)) * second}
            play.beat(
                session,
                batches=second,
                samples=None if count is None else count * second,
                phases={**phases, "waiting": (0.4 - own) * second},
                own_step_seconds=own,
                step_seconds=0.4,
            )
        play.wait(1)
    for rank, session in enumerate(sessions):
        gpu = messages.GpuSample(
            index=0, uuid=f"u{rank}", memory_used=rank + 1, memory_total=8, util=0.2, util_peak=0.3 * (rank + 1)
        )
        sample = messages.RankSample(memory=100 * (rank + 1), gpu=gpu)
        play.tell(session, messages.ResourceSample(time=play.now.wall, interval_seconds=2.0, rank=sample))
    play.points([(metric, rank, 1, float(rank + 1)) for metric in range(3) for rank in range(len(hosts))])
    return play


def test_b38_the_tree_is_root_hosts_ranks() -> None:
    root = tree(job("a", "b", "b"))
    assert (root.path, root.level, root.ranks) == ("root", "root", 3)
    assert [(node.path, node.level, node.ranks) for node in root.children] == [
        ("root/a", "host", 1),
        ("root/b", "host", 2),
    ]
    assert [leaf.path for node in root.children for leaf in node.children] == [
        "root/a/rank0",
        "root/b/rank1",
        "root/b/rank2",
    ]


def test_b38_a_single_host_has_no_host_level() -> None:
    root = tree(job("a", "a", "a"))
    assert [(node.path, node.level) for node in root.children] == [(f"root/a/rank{n}", "rank") for n in range(3)]


def test_b38_throughput_share_and_memory_sum_waits_and_peaks_are_maxima() -> None:
    root = tree(job("a", "b", "b"))
    ranks = [10 / 0.1, 30 / 0.2, 60 / 0.3]
    assert [node.throughput for node in (root, *root.children)] == pytest.approx([sum(ranks), ranks[0], sum(ranks[1:])])
    assert [node.batch_share for node in (root, *root.children)] == pytest.approx([1.0, 0.1, 0.9])
    assert [(node.samples, node.memory, node.vram_used, node.vram_total) for node in (root, root.children[1])] == [
        (200, 600, 6, 24),
        (180, 500, 5, 16),
    ]
    found = [
        (node.own_step_seconds, node.data_seconds, node.waiting_seconds, node.gpu_util_peak, node.gpu_util)
        for node in (root, root.children[1])
    ]
    assert found == [
        pytest.approx((0.3, 0.03, 0.3, 0.9, 0.2)),
        pytest.approx((0.3, 0.02, 0.2, 0.9, 0.2)),
    ]


def test_b38_metrics_are_weighted_means_or_what_was_declared_and_say_which() -> None:
    root = tree(job("a", "b", "b"))
    assert root.metrics == {
        "loss": NodeMetric(value=pytest.approx(0.1 * 1 + 0.3 * 2 + 0.6 * 3), reduction="mean", ranks=3),
        "peak": NodeMetric(value=3.0, reduction="max", ranks=3),
        "tokens": NodeMetric(value=6.0, reduction="sum", ranks=3),
    }
    assert list(root.metrics) == ["loss", "peak", "tokens"]
    assert root.children[1].metrics["loss"].value == pytest.approx((0.3 * 2 + 0.6 * 3) / 0.9)


@pytest.mark.parametrize("samples", [(None, None, None), (10, None, 60)])
def test_b38_without_every_share_the_mean_weighs_all_alike(samples: tuple[int | None, ...]) -> None:
    root = tree(job("a", "b", "b", samples=samples))
    assert root.metrics["loss"].value == pytest.approx(2.0)


def test_b38_d14_ranks_without_a_metric_or_a_figure_are_left_out() -> None:
    play = Play()
    for rank in range(3):
        play.hello(rank, world=3, host="ab"[rank // 2], local=0)
    play.metric(0, "loss")
    play.points([(0, 2, 1, 0.5)])
    root = tree(play)
    assert root.metrics == {"loss": NodeMetric(value=0.5, reduction="mean", ranks=1)}
    assert root.children[0].metrics == {}
    unknown: list[Any] = [root.throughput, root.batch_share, root.memory, root.waiting_seconds, root.gpu_util]
    assert unknown == [None] * 5


def test_b38_a_metric_declared_later_is_reduced_so_from_then_on() -> None:
    play = Play()
    play.metric(0, "tokens")
    for rank in range(2):
        play.hello(rank)
    play.points([(0, 0, 1, 2.0), (0, 1, 1, 4.0)])
    assert play.machine.metric_entries()[0].last == 3.0
    play.metric(0, "tokens", "sum")
    (entry,) = play.machine.metric_entries()
    assert (entry.last, entry.reduction, entry.points) == (6.0, "sum", 2)
