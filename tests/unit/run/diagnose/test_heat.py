"""The heat map: bounded, and true in every cell."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.unit.run.diagnose.simulate import Job
from tests.unit.run.diagnose.test_window import entries, message
from trackside.run.diagnose.heat import MOST_CELLS, HeatMap, HeatSnapshot, thinned


def test_cells_are_means_a_step() -> None:
    heat = HeatMap()
    for joined in entries((0, message([0, 1], [1.0, 3.0])), (1, message([1], [float("nan")]))):
        heat.take(joined)
    answer = heat.answer()
    assert (answer.ranks, answer.step) == ([0, 1], [0, 1])
    assert answer.own == [[1.0, 3.0], [None, None]]
    assert answer.wall == [[2.0, 2.0], [None, 2.0]]
    assert answer.data == [[0.25, 0.75], [None, None]]
    assert answer.time == [0.0, 1.0]
    assert heat.answer(frozenset({1})).ranks == [1]


@pytest.mark.parametrize(("ranks", "steps"), [(2, 5000), (64, 1500), (300, 500)])
def test_a_long_run_stays_bounded_and_keeps_its_mean(ranks: int, steps: int) -> None:
    job, heat, total = Job(ranks=ranks), HeatMap(), np.zeros(ranks)
    for _ in range(steps // 100):
        joined = job.steps(100)
        heat.take(joined)
        total += joined.own.reshape(-1, ranks).sum(axis=0)
    answer = heat.answer()
    assert len(answer.step) * ranks <= MOST_CELLS
    assert answer.step[-1] == steps // 100 * 100 - 1
    widths = np.diff([-1, *answer.step])
    assert set(widths[:-1].tolist()) == {heat.stride}
    means = (np.array(answer.own, float) * widths).sum(axis=1) / widths.sum()
    assert means == pytest.approx(total / steps, rel=1e-3)


def test_ranks_that_come_later_and_steps_that_begin_anywhere() -> None:
    heat = HeatMap()
    for joined in entries((3, message([1_000_000, 1_000_001], [1.0, 2.0]))):
        heat.take(joined)
    for joined in entries((1, message([999_999], [7.0])), (3, message([1_000_002], [3.0]))):
        heat.take(joined)
    answer = heat.answer()
    assert answer.ranks == [1, 3]
    assert answer.step == [999_999, 1_000_000, 1_000_001, 1_000_002]
    assert answer.own == [[7.0, None, None, None], [None, 1.0, 2.0, 3.0]]


def test_a_step_far_away_costs_no_memory() -> None:
    heat = HeatMap()
    for joined in entries((0, message([0, 1 << 50], [1.0, 2.0]))):
        heat.take(joined)
    assert heat.answer().own == [[1.0, 2.0]]


def test_steps_that_are_trained_again_replace_those_before() -> None:
    heat = HeatMap()
    for joined in entries((0, message([0, 1, 2, 3], [1.0] * 4))):
        heat.take(joined)
    heat.begin(0, 2)
    for joined in entries((0, message([2], [9.0]))):
        heat.take(joined)
    assert heat.answer().own == [[1.0, 1.0, 9.0]]


def test_a_checkpoint_holds_it_all_in_little_room() -> None:
    job, heat = Job(ranks=1024), HeatMap()
    heat.take(job.steps(100))
    kept = msgspec.msgpack.encode(heat.snapshot())
    assert len(kept) < 2_000_000
    again = HeatMap()
    again.restore(msgspec.msgpack.decode(kept, type=HeatSnapshot))
    assert again.answer() == heat.answer()
    more = job.steps(50)
    again.take(more)
    heat.take(more)
    assert again.answer() == heat.answer()


def test_thinning_for_the_report() -> None:
    job, heat = Job(ranks=4), HeatMap()
    heat.take(job.steps(101))
    answer = thinned(heat.answer(), 100)
    assert len(answer.step) * 4 <= 100
    assert answer.step[-1] == 100
    assert all(len(row) == len(answer.step) for row in (*answer.own, *answer.data, *answer.wall, answer.time))
