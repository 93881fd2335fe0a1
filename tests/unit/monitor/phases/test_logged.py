"""Steps by what was logged: only where nothing else tells them."""

import time
from typing import Any

from tests.process.step_times import rows
from trackside.monitor.buffer import NO_EPOCH
from trackside.monitor.loop import BatchLoop, StepCounter
from trackside.monitor.phases.logged import SURE_AFTER
from trackside.monitor.phases.recorder import MOST_SAID, Recorder
from trackside.monitor.pulse import OwnWork


def calls(*steps: int) -> list[Any]:
    """A call a second."""
    start = time.time()
    return [(NO_EPOCH, start + at, step, {"loss": 1.0}) for at, step in enumerate(steps)]


def told(recorder: Recorder, *logged: Any) -> list[dict[str, Any]]:
    return [row for message in recorder.collect(logged, flush=True) for row in rows(message)]


def test_a_change_of_the_step_is_a_border_once_there_were_three() -> None:
    recorder = Recorder()
    found = told(recorder, *calls(10, 10, 20, 30, 30, 40, 50))
    assert [(row["step"], row["count"], round(row["wall"], 3)) for row in found] == [(40, 1, 2.0), (50, 1, 1.0)]
    assert all(row["own"] == row["wall"] and set(row["seconds"]) == {"rest"} for row in found)
    assert all(row["samples"] == -1 for row in found)


def test_what_is_odd_about_a_call_is_left_to_the_encoder() -> None:
    assert told(Recorder(), (NO_EPOCH, 1.0, "later", {}), object(), *calls(1, 2, 3)) == []


def test_with_peers_unseen_own_time_is_unknown() -> None:
    recorder = Recorder()
    recorder.borders._has_peers = lambda: True
    (row,) = told(recorder, *calls(1, 2, 3, 4))
    assert row["own"] != row["own"]
    assert set(row["seconds"]) == {"step"}


def test_batches_tell_better() -> None:
    recorder = Recorder()
    list(BatchLoop([1, 2], recorder, StepCounter()))
    assert [row["step"] for row in told(recorder, *calls(1, 2, 3, 4, 5))] in ([1], [0, 1])


def test_marks_are_added_up_four_times_a_second_and_at_once_for_an_epochs_report() -> None:
    recorder, work = Recorder(), OwnWork()
    recorder.collect(flush=False)
    recorder.begin_work(work)
    list(BatchLoop([1, 2], recorder, StepCounter()))
    assert recorder.collect(flush=False) == []
    assert recorder.track.marks, "they wait"
    recorder.end_work(work)
    recorder.collect(flush=False)
    assert work.seconds is not None
    assert not recorder.track.marks


def test_borders_that_were_logged_wait_with_the_marks() -> None:
    recorder, logged = Recorder(), calls(1, 2, 3, 4, 5)
    assert [recorder.collect([call], flush=False) for call in logged] == [[]] * 5
    assert [row["step"] for row in told(recorder)] == [4, 5]


def test_who_logs_faster_than_anyone_trains_costs_no_more_and_a_step_that_is_told_is_a_step() -> None:
    recorder = Recorder()
    recorder.collect(flush=False)
    start = time.time()
    for first in range(0, 4 * MOST_SAID, 1000):
        recorder.collect([(NO_EPOCH, start + i * 1e-5, i, {}) for i in range(first, first + 1000)], flush=False)
    found = told(recorder)
    assert sum(row["count"] for row in found) == MOST_SAID - SURE_AFTER
    assert max(row["wall"] / row["count"] for row in found) < 2e-5
