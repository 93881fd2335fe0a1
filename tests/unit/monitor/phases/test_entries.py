"""Steps to messages: short ones summed, four times a second, what is not known said."""

import math

import pytest

from tests.process.step_times import rows
from trackside.monitor.phases.entries import Entries
from trackside.monitor.phases.fold import StepCost


def cost(step: int, wall: float, own: float | None = None, samples: int | None = 4, **seconds: float) -> StepCost:
    seconds = seconds or {"rest": wall}
    return StepCost(
        step=step, ended_at=100.0 + step, wall=wall, own=own, seconds=seconds, known=tuple(seconds), samples=samples
    )


def test_single_steps_stay_single_and_short_ones_are_summed_until_50_ms() -> None:
    entries = Entries()
    for step in range(3):
        entries.add(cost(step, 0.02, own=0.01, rest=0.01, data=0.01), now=0.0)
    entries.add(cost(3, 0.07, own=0.07, rest=0.03, data=0.04), now=0.0)
    entries.add(cost(4, 0.01, own=0.01, rest=0.01, data=0.0), now=0.0)
    message = entries.message(1.0, flush=False)
    assert message is not None
    first, second = rows(message)
    assert first == {
        "step": 2, "count": 3, "ended_at": 102.0, "wall": pytest.approx(0.06), "own": pytest.approx(0.03), "samples": 12,
        "seconds": {"rest": pytest.approx(0.03), "data": pytest.approx(0.03)},
    }  # fmt: skip
    assert (second["step"], second["count"]) == (3, 1)
    assert entries.message(2.0, flush=False) is not None, "waits a second for more, not longer"


def test_sent_four_times_a_second_and_at_once_at_the_end() -> None:
    entries = Entries()
    assert entries.message(10.0, flush=True) is None
    entries.add(cost(0, 0.1), now=10.0)
    assert entries.message(10.0, flush=False) is not None
    entries.add(cost(1, 0.1), now=10.1)
    assert entries.message(10.2, flush=False) is None
    assert entries.message(10.26, flush=False) is not None
    entries.add(cost(2, 0.01), now=10.3)
    flushed = entries.message(10.3, flush=True)
    assert flushed is not None
    assert [row["step"] for row in rows(flushed)] == [2]


def test_what_is_not_known_is_nan_and_minus_one_never_zero() -> None:
    entries = Entries()
    entries.add(cost(0, 0.02, own=None, samples=None), now=0.0)
    entries.add(cost(1, 0.04, own=0.01), now=0.0)
    entries.add(cost(2, 0.05, own=0.01, rest=0.02, forward=0.03), now=0.0)
    message = entries.message(1.0, flush=True)
    assert message is not None
    first, second = rows(message)
    assert math.isnan(first["own"])
    assert first["samples"] == -1
    assert math.isnan(first["seconds"]["forward"]), "it could not be told then"
    assert second["seconds"] == {"rest": 0.02, "forward": 0.03}


def test_a_run_that_begins_again_is_not_summed_over() -> None:
    entries = Entries()
    entries.add(cost(9, 0.01), now=0.0)
    entries.add(cost(0, 0.01), now=0.0)
    message = entries.message(1.0, flush=True)
    assert message is not None
    assert [row["step"] for row in rows(message)] == [9, 0]
