"""Steps side by side: late, several in one, amended, counted anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trackside.run.diagnose.entries import Entries, is_whole, join
from trackside.run.diagnose.peers import peer_medians
from trackside.run.diagnose.spikes import SpikeLog
from trackside.run.diagnose.window import OWN, WALL, StepWindow
from trackside.wire.messages import StepTimes


def message(steps: list[int], own: list[float], *, count: int = 1, at: float = 0.0, **changes: Any) -> StepTimes:
    """Entries of one rank, a second apart."""
    number = len(steps)
    fields: dict[str, Any] = {
        "phases": ["data", "forward"],
        "step": np.array(steps, "<i8").tobytes(),
        "count": np.full(number, count, "<u4").tobytes(),
        "ended_at": (at + np.array(steps, "<f8")).tobytes(),
        "wall": np.full(number, 2.0 * count, "<f8").tobytes(),
        "own": np.array(own, "<f8").tobytes(),
        "seconds": np.stack([0.25 * np.array(own), 0.75 * np.array(own)], axis=1).astype("<f8").tobytes(),
        "samples": np.full(number, 8 * count, "<i8").tobytes(),
    }
    return StepTimes(**{**fields, **changes})


def entries(*messages: tuple[int, StepTimes]) -> list[Entries]:
    return join(messages)


def window(*messages: tuple[int, StepTimes]) -> StepWindow:
    made = StepWindow()
    for joined in entries(*messages):
        made.take(joined)
    return made


def own(made: StepWindow, ranks: list[int]) -> list[list[float]]:
    view = made.aligned(ranks)
    assert view is not None
    return view.plane(OWN).round(5).tolist()


def test_ranks_side_by_side() -> None:
    made = window((0, message([0, 1, 2], [1.0, 2.0, 3.0])), (1, message([0, 1, 2], [4.0, 5.0, 6.0])))
    assert own(made, [0, 1]) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    view = made.aligned([0, 1])
    assert view is not None
    assert view.phase("data").tolist() == [[0.25, 0.5, 0.75], [1.0, 1.25, 1.5]]
    assert np.isnan(view.phase("optimizer")).all()
    assert view.last_step == 2


def test_a_late_rank_is_waited_for_by_nobody() -> None:
    late = window(*((rank, message(list(range(10 if rank else 4)), [1.0] * (10 if rank else 4))) for rank in range(8)))
    view = late.aligned(list(range(8)))
    assert view is not None
    assert view.last_step == 9
    assert view.has[0].tolist() == [True] * 4 + [False] * 6


def test_an_amended_entry_replaces_the_former() -> None:
    made = window((0, message([0, 1, 2], [1.0, 2.0, 3.0])))
    for joined in entries((0, message([1], [7.0]))):
        made.take(joined)
    assert own(made, [0]) == [[1.0, 7.0, 3.0]]


def test_unknown_is_not_zero() -> None:
    made = window((0, message([0, 1], [1.0, float("nan")])), (1, message([0, 1], [-1.0, float("inf")])))
    (first, second) = own(made, [0, 1])
    assert first[0] == 1.0
    assert np.isnan([first[1], *second]).all()


def test_short_steps_come_several_in_one() -> None:
    steps = list(range(3, 200, 4))
    made = window((0, message(steps, [4.0] * len(steps), count=4)))
    assert made.stride == 4
    view = made.aligned([0])
    assert view is not None
    known = view.plane(OWN)[view.has]
    assert known == pytest.approx(np.full(len(known), 1.0))
    assert view.plane(WALL)[view.has] == pytest.approx(np.full(len(known), 2.0))


def test_entries_that_do_not_end_together_are_shared_out() -> None:
    made = window(
        (0, message(list(range(3, 200, 4)), [4.0] * 50, count=4)),
        (1, message(list(range(1, 200, 4)), [8.0] * 50, count=4)),
    )
    view = made.aligned([0, 1])
    assert view is not None
    middle = view.plane(OWN)[:, 2:-2]
    assert middle[0] == pytest.approx(np.full(middle.shape[1], 1.0))
    assert middle[1] == pytest.approx(np.full(middle.shape[1], 2.0))


def test_steps_with_gaps_between_their_numbers() -> None:
    steps = list(range(0, 100_000, 1000))
    made = window((0, message(steps, [1.0] * 100)), (1, message(steps, [2.0] * 100)))
    for joined in entries((0, message([100_000], [1.0])), (1, message([100_000], [2.0]))):
        made.take(joined)
    (first, second) = own(made, [0, 1])
    assert len(first) > 60
    assert np.nanmax(first) == 1.0
    assert np.nanmin(second) == 2.0


def test_a_script_that_counts_anew_begins_anew() -> None:
    made = window((0, message(list(range(50)), [1.0] * 50)))
    for joined in entries((0, message([0, 1, 2], [5.0] * 3, at=1000.0))):
        made.take(joined)
    assert own(made, [0]) == [[5.0, 5.0, 5.0]]


def test_another_process_begins_anew() -> None:
    made = window((0, message(list(range(50)), [1.0] * 50)))
    made.begin(0)
    for joined in entries((0, message([30, 31], [5.0] * 2))):
        made.take(joined)
    assert own(made, [0]) == [[5.0, 5.0]]


def test_the_window_slides() -> None:
    made = window((0, message(list(range(1000)), [float(step) for step in range(1000)])))
    view = made.aligned([0])
    assert view is not None
    assert view.first_step(0) == 744
    assert len(view.ids) == 256


def test_very_many_ranks_keep_fewer_steps() -> None:
    made = window(*((rank, message(list(range(300)), [1.0] * 300)) for rank in range(2000)))
    view = made.aligned(list(range(2000)))
    assert view is not None
    assert view.plane(OWN).shape == (2000, 128)


@pytest.mark.parametrize(
    "changes",
    [{"samples": b""}, {"wall": b"1234567"}, {"seconds": b""}, {"phases": ["a"] * 100}, {"step": b"123"}],
)
def test_columns_that_contradict_each_other_are_no_message(changes: dict[str, Any]) -> None:
    assert is_whole(message([0], [1.0]))
    assert not is_whole(message([0], [1.0], **changes))


def test_entries_that_say_nothing_are_left_out() -> None:
    joined = join([(0, message([-1, 5], [1.0, 1.0])), (1, message([2], [1.0], wall=np.array([np.nan]).tobytes()))])
    assert [(one.rank.tolist(), one.step.tolist()) for one in joined] == [([0], [5])]


def test_peers_are_the_others() -> None:
    values = np.array([[1.0, 5.0, np.nan], [2.0, 1.0, 4.0], [9.0, np.nan, np.nan], [4.0, np.nan, np.nan]])
    assert peer_medians(values)[:, 0].tolist() == [4.0, 4.0, 2.0, 2.0]
    assert peer_medians(values)[:2, 1].tolist() == [1.0, 5.0]
    assert np.isnan(peer_medians(values)[:, 2]).all()


def test_peer_medians_are_what_they_say() -> None:
    random = np.random.default_rng(3)
    values = np.where(random.random((9, 40)) < 0.2, np.nan, random.integers(0, 5, (9, 40)).astype(float))
    found = peer_medians(values)
    for row in range(9):
        others = np.delete(values, row, axis=0)
        for column in range(40):
            known = others[:, column][np.isfinite(others[:, column])]
            if np.isfinite(values[row, column]) and len(known):
                assert found[row, column] == np.median(known)
            else:
                assert np.isnan(found[row, column])


def test_steps_that_took_no_time_at_all_are_no_warning() -> None:
    """By a clock that stood still: nothing is known of two blocks in a row, and nothing is said of that on stderr."""
    steps = list(range(40))
    wall = [0.0 if step in (20, 21, 22) else 2.0 for step in steps]
    made = window((0, message(steps, [1.0] * 40, wall=np.array(wall, "<f8").tobytes())))
    log = SpikeLog()
    view = made.aligned([0])
    assert view is not None
    log.take(view)
    assert log.spikes == []
