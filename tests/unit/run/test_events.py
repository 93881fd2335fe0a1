"""Events: collapse, bounds, evidence."""

import math

import msgspec
import numpy as np
import pytest

from tests.unit.run.play import Play
from trackside.run import inputs, outputs
from trackside.run.events import raise_event
from trackside.run.machine import RunMachine
from trackside.wire import messages


def test_b41_a_non_finite_loss_names_value_rank_and_step() -> None:
    play = Play()
    play.hello(0, world=1)
    play.metric(0, "loss")
    play.points([(0, 0, 12, math.nan), (0, 0, 13, math.nan)])
    (event,) = play.events("non-finite")
    assert (event.text, event.count, event.step, event.path) == ("loss is NaN at step 12", 2, 12, "root/a/rank0")
    assert play.ranks[0].non_finite == 2
    assert play.machine.metric_entries()[0].non_finite == 2


def test_b41_dropped_records_are_an_event_with_the_true_count() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for total in (0, 30, 30, 100):
        play.beat(session, dropped_points=total)
    (event,) = play.events("records dropped")
    assert (event.count, play.ranks[0].dropped_points) == (100, 100)


def test_b42_repeats_within_ten_seconds_collapse_and_counts_sum() -> None:
    play = Play()
    for second in (0, 5, 14, 30):
        play.at = second
        raise_event(play.machine.state, play.now, "x", "again", count=3)
    assert [(event.count, event.time - 1_700_000_000) for event in play.events("x")] == [(9, 0), (3, 30)]


def test_b42_another_path_or_class_is_another_event() -> None:
    play = Play()
    for kind, path in (("x", "root"), ("x", "root/a"), ("y", "root")):
        raise_event(play.machine.state, play.now, kind, "t", path=path)
    assert len(play.events()) == 3


def test_b42_at_most_two_hundred_live_and_evictions_are_counted() -> None:
    play = Play()
    for number in range(450):
        raise_event(play.machine.state, play.now, f"kind {number}", "t")
    events = play.events()
    assert len(events) == 200
    (dropped,) = play.events("events dropped")
    assert dropped.count + len(events) - 1 == 450
    assert events[-1].kind == "kind 449"


def test_every_metric_whose_value_is_refused_is_told_and_a_users_event_reads_as_it_was_said() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for name in ("x", "y"):
        play.tell(session, messages.Notice(time=1.0, about="value refused", text=f"'{name}' was not taken"))
    play.tell(session, messages.UserEvent(time=1.0, title="resumed", text="from checkpoint 900"))
    assert [said.line.split("  [")[0] for said in play.asked(outputs.PrintLine)] == [
        "  warn     value refused: 'x' was not taken",
        "  warn     value refused: 'y' was not taken",
        "  info     resumed: from checkpoint 900",
    ]


def test_b42_each_is_printed_once() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for _ in range(5):
        play.tell(session, messages.Notice(time=1.0, about="value refused", text="'x': no number"))
    assert len(play.asked(outputs.PrintLine)) == 1
    assert "value refused" in play.asked(outputs.PrintLine)[0].line


def test_b42_the_least_recent_go_first_and_what_still_holds_stays() -> None:
    play = Play()
    raise_event(play.machine.state, play.now, "holds", "t", active=True)
    for number in range(150):
        play.at += 0.1
        raise_event(play.machine.state, play.now, f"kind {number}", "t")
        raise_event(play.machine.state, play.now, "again", "t")
    play.at += 1
    for number in range(150, 260):
        raise_event(play.machine.state, play.now, f"kind {number}", "t")
    left = {event.kind: event.count for event in play.events()}
    assert (left["again"], left["holds"]) == (150, 1)
    assert [f"kind {n}" in left for n in (0, 61, 64, 259)] == [False, False, True, True]


def test_b42_counts_stay_true_through_any_mix_of_times() -> None:
    play, told = Play(), 0
    for number in range(120):
        play.at += (0.0, 3.0, 9.9, 10.1)[number % 4]
        raise_event(play.machine.state, play.now, "x", "t", path=f"root/{number % 2}", count=number % 5 + 1)
        told += number % 5 + 1
    assert sum(event.count for event in play.events("x")) == told


def test_b42_each_class_is_printed_once_and_what_left_the_page_too() -> None:
    play = Play()
    said = [raise_event(play.machine.state, play.now, f"kind {n}", "t", severity="warn") for n in range(210)]
    printed = [i.line for out in said for i in out if isinstance(i, outputs.PrintLine)]
    assert len(printed) == 211
    assert sum("events dropped" in line for line in printed) == 1
    assert [play.do(inputs.Ticked()) for _ in range(3)]
    assert len(play.asked(outputs.PrintLine)) == 0


def test_b41_an_event_says_when_where_what_how_bad_and_how_often() -> None:
    play = Play()
    session = play.hello(3, world=4)
    play.at = 7.0
    play.tell(session, messages.UserEvent(time=1.0, title="saved", text="model.pt", level="warn"))
    (event,) = play.events("user")
    said = (event.time - 1_700_000_000, event.path, event.kind, event.severity, event.text, event.count)
    assert said == (7.0, "root/a/rank3", "user", "warn", "saved: model.pt", 1)


@pytest.mark.parametrize(
    ("kind", "path", "own", "data"),
    [("straggler", "root/a/rank2", [1.0, 1.0, 1.6], 0.0), ("data starvation", "root", [1.0, 1.0, 1.0], 0.6)],
)
def test_b41_a_verdict_is_an_event_of_its_class(kind: str, path: str, own: list[float], data: float) -> None:
    play = Play()
    sessions = [play.hello(rank, world=3) for rank in range(3)]
    for step in range(200):
        for session, seconds in zip(sessions, own, strict=True):
            play.tell(session, step_times(step, data, seconds + 0.01 * (step % 3) - data))
        play.wait(2.0)
    (event,) = play.events(kind)
    assert (event.path, event.severity, event.active, event.count) == (path, "warn", True, 1)


def step_times(step: int, data_s: float, forward_s: float) -> messages.StepTimes:
    """One step of a rank that waits for data, and then works."""
    whole = np.array([data_s + forward_s])
    return messages.StepTimes(
        phases=["data", "forward"],
        step=np.array([step], "<i8").tobytes(),
        count=np.array([1], "<u4").tobytes(),
        ended_at=np.array([1_700_000_000.0 + 2 * step]).tobytes(),
        wall=whole.tobytes(),
        own=whole.tobytes(),
        seconds=np.array([data_s, forward_s]).tobytes(),
        samples=np.array([-1], "<i8").tobytes(),
    )


def test_b41_every_built_in_class_is_raised_by_what_it_is_about() -> None:
    """But for straggler and data starvation, which are verdicts: see above."""
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.metric(0, "loss")
    play.points([(0, 1, 4, math.nan)])
    play.beat(one, dropped_points=5, clock_offset=9.0)
    play.tell(zero, messages.SetGraph(label="net", hash="a"))
    play.tell(one, messages.SetGraph(label="net", hash="b"))
    play.do(inputs.StoreStalled(since=1.0, reason="No space left on device"))
    for _ in range(31):
        play.beat(zero)
        play.wait(1)
    play.beat(one, clock_offset=9.0)
    again = [play.hello(rank, generation=1) for rank in range(2)]
    for session in again:
        play.tell(session, messages.Goodbye(time=1.0))
    play.wait(1)
    severities = {event.kind: event.severity for event in play.events()}
    assert severities == {
        "non-finite": "critical",
        "records dropped": "warn",
        "clock offset": "warn",
        "hash mismatch": "warn",
        "disk": "critical",
        "rank lost": "critical",
        "rank back": "info",
        "restart": "info",
        "finish": "info",
    }


def test_user_events_are_never_collapsed() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for number in range(3):
        play.tell(session, messages.UserEvent(time=1.0, title="saved", text=str(number), level="info"))
    assert [event.text for event in play.events("user")] == ["saved: 0", "saved: 1", "saved: 2"]


def test_a_stalled_disk_is_said_until_it_recovers() -> None:
    play = Play()
    play.do(inputs.StoreStalled(since=1.0, reason="No space left on device"))
    play.do(inputs.StoreStalled(since=1.0, reason="No space left on device"))
    assert play.run.not_persisted_since == 1.0
    assert len(play.events("disk")) == 1
    play.do(inputs.StoreRecovered())
    assert (play.run.not_persisted_since, play.run.warnings) == (None, [])


def test_refused_frames_and_failed_sinks_are_on_the_page() -> None:
    play = Play()
    play.do(inputs.FrameRefused("wrong key", "a process at 10.0.0.9 has not the key"))
    play.do(inputs.SinkFailed("mine", "ValueError: no"))
    assert [event.kind for event in play.events()] == ["wrong key", "sink failed"]


def test_b42_what_was_told_before_the_controller_died_is_told_once_and_kept() -> None:
    """The checkpoint is older than the last events; the journal tells those of frames again, nobody tells the others."""
    play = Play()
    play.hello(0, world=1)
    play.metric(0, "loss")
    checkpoint = play.machine.snapshot()
    play.at = 5
    play.points([(0, 0, 1, math.nan), (0, 0, 2, math.nan)])
    raise_event(play.machine.state, play.now, "records dropped", "by one", path="root/a/rank0")
    play.do(inputs.StoreStalled(5.0, "full"))
    play.at = 7
    play.points([(0, 0, 3, math.nan)])
    told = play.events()

    play.machine = RunMachine.restore(checkpoint)
    play.at = 20
    play.do(inputs.EventsRecalled(told))
    play.at = 4  # a batch that begins before the one it was told in
    play.points([(0, 0, 1, math.nan)])
    raise_event(play.machine.state, play.now, "records dropped", "by one", path="root/a/rank0")
    play.at = 7
    play.points([(0, 0, 2, math.nan), (0, 0, 3, math.nan)])
    play.at = 20
    play.do(inputs.Replayed(3.0))
    kept = [event for event in play.events() if event.kind != "controller restarted"]
    assert kept == [msgspec.structs.replace(event, active=False) for event in told]
    assert [event.active for event in told if event.kind == "disk"] == [True]
    play.points([(0, 0, 4, math.nan)])
    assert [(event.count, event.step) for event in play.events("non-finite")] == [(3, 1), (1, 4)]


def test_b42_a_condition_that_the_journal_tells_again_holds_again() -> None:
    play = Play(launched=True)
    session = play.hello(0, world=1)
    agent = play.agent()
    checkpoint = play.machine.snapshot()
    failed = messages.WorkerExited(rank=0, generation=0, exit_code=1, signal=None, time=0.0)
    play.tell(agent, failed)
    told = play.events()
    play.machine = RunMachine.restore(checkpoint)
    play.do(inputs.EventsRecalled(told))
    assert [event.active for event in play.events("rank failed")] == [False]
    play.tell(agent, failed)
    play.do(inputs.Replayed(1.0))
    assert play.events("rank failed") == [event for event in told if event.kind == "rank failed"]
    assert session
