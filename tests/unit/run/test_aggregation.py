"""Values over ranks: cohorts, epochs, throughput, resources."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.unit.run.play import Play, batch
from trackside.monitor import console
from trackside.run import inputs, outputs
from trackside.run.cohort import CohortWindow, reduced, update_of
from trackside.store.catalog import metric_entries
from trackside.wire import messages
from trackside.wire.columns import concatenate


def update(window: CohortWindow, metric: int = 0, reduction: messages.Reduction = "mean") -> dict[str, list[object]]:
    shown = update_of(window.take_changes()[metric], reduction)
    return {name: getattr(shown, name) for name in ("step", "mean", "min", "max", "count", "worst")}


def test_b39_a_cohort_has_mean_extremes_count_and_the_worst_rank() -> None:
    window = CohortWindow()
    window.add(batch([(0, 0, 5, 1.0), (0, 1, 5, 2.0), (0, 2, 5, 9.0), (0, 0, 6, 4.0)]))
    assert update(window) == {
        "step": [5, 6],
        "mean": [4.0, 4.0],
        "min": [1.0, 4.0],
        "max": [9.0, 4.0],
        "count": [3, 1],
        "worst": [2, None],
    }


@pytest.mark.parametrize("reduction", ["mean", "sum", "min", "max", "last"])
def test_the_last_value_is_what_the_curve_ends_in(reduction: messages.Reduction) -> None:
    values = [1.5, -2.5, 1.7e308, math.nan, math.inf, -math.inf]
    for first, second in itertools.product(values, repeat=2):
        window = CohortWindow()
        window.add(batch([(0, 0, 5, first), (0, 1, 5, second)]))
        with np.errstate(over="ignore", invalid="ignore"):
            (end,) = reduced(window.recent()[0], reduction).tolist()
        assert math.isnan(end) if math.isnan(window.last(0, reduction)) else end == window.last(0, reduction)


def test_a_late_rank_amends_its_step_and_only_what_changed_is_told() -> None:
    window = CohortWindow()
    window.add(batch([(0, 0, 1, 1.0), (0, 0, 2, 1.0), (0, 0, 3, 1.0)]))
    window.take_changes()
    window.add(batch([(0, 1, 2, 3.0)]))
    assert update(window)["step"] == [2]
    window.add(batch([(0, 1, 0, 5.0), (0, 1, 9, 5.0)]))
    changed = update(window)
    assert (changed["step"], changed["mean"]) == ([0, 9], [5.0, 5.0])


def test_b39_non_finite_values_are_counted_and_never_spoil_the_others() -> None:
    window = CohortWindow()
    window.add(batch([(0, 0, 1, math.nan), (0, 1, 1, 2.0), (0, 0, 2, math.nan), (0, 0, 3, -math.inf)]))
    shown = update(window)
    assert shown["mean"] == [2.0, "NaN", "-Infinity"]
    assert shown["count"] == [2, 1, 1]


def test_b39_d14_ranks_with_other_keys_or_none_are_normal() -> None:
    """A pipeline of three stages: the last one alone has a loss, and nobody gets a value it did not log."""
    play = Play()
    for rank in range(3):
        play.hello(rank, world=3)
    for number, name in enumerate(["loss", "activations", "bubble"]):
        play.metric(number, name)
    play.points([(0, 2, 5, 0.25), (1, 0, 5, 7.0), (1, 1, 5, 9.0), (2, 0, 6, 1.0)])
    shown = {name: (m.rank_count, m.last) for m in play.machine.metric_entries() for name in [m.name]}
    assert shown == {"loss": (1, 0.25), "activations": (2, 8.0), "bubble": (1, 1.0)}
    changes = play.machine.root.take_changes()
    assert [(update_of(changes[n], "mean").mean, update_of(changes[n], "mean").count) for n in range(3)] == [
        ([0.25], [1]),
        ([8.0], [2]),
        ([1.0], [1]),
    ]
    assert [entry.non_finite for entry in play.ranks] == [0, 0, 0]
    assert ("loss", 0, "a") not in [cell[:3] for cell in play.machine.last_values()]


def test_b39_d10_every_rank_counts_not_the_first_one_alone() -> None:
    window = CohortWindow()
    window.add(batch([(0, rank, 1, float(rank)) for rank in range(64)]))
    assert update(window) == {"step": [1], "mean": [31.5], "min": [0.0], "max": [63.0], "count": [64], "worst": [63]}


def test_b39_the_worst_rank_is_the_one_furthest_from_the_mean_on_either_side() -> None:
    window = CohortWindow()
    window.add(batch([(0, 0, 1, 5.0), (0, 1, 1, 5.5), (0, 2, 1, -9.0), (0, 3, 1, 5.2)]))
    assert update(window)["worst"] == [2]


def test_b39_d60_a_mean_stays_within_its_extremes_where_the_sum_has_no_number() -> None:
    window, most = CohortWindow(), 1.7976931348623157e308
    window.add(batch([(0, 0, 1, most), (0, 1, 1, most), (0, 0, 2, -most), (0, 1, 2, -most), (0, 0, 3, math.inf)]))
    assert update(window)["mean"] == [most, -most, "Infinity"]


def test_d07_steps_are_kept_as_given_for_each_series_and_never_dropped() -> None:
    """A train step summed over ranks beside an eval step of its own, which is far behind."""
    play = Play()
    play.hello(0, world=1)
    play.metric(0, "loss")
    play.metric(1, "eval/loss")
    play.points([(0, 0, 4000, 1.0)])
    play.points([(1, 0, 1, 2.0)])
    play.points([(0, 0, 4004, 1.0), (1, 0, 2, 2.0)])
    play.points([(0, 0, 10, 5.0)])
    entries = {m.name: (m.points, m.first_step, m.last_step) for m in play.machine.metric_entries()}
    assert entries == {"loss": (3, 10, 4004), "eval/loss": (2, 1, 2)}
    rows = play.machine.root.take_changes()
    assert [rows[number]["step"].tolist() for number in (0, 1)] == [[10, 4000, 4004], [1, 2]]


@pytest.mark.parametrize("step", [-(2**63), -5, 0, 2**53 + 1, 2**63 - 1])
def test_b39_any_step_of_64_bits_is_a_step(step: int) -> None:
    window = CohortWindow()
    window.add(batch([(0, 0, step, 1.0), (0, 1, step, 3.0)]))
    assert update(window)["step"] == [step]
    assert update_of(window.recent()[0], "mean").mean == [2.0]


def test_b39_a_cohort_of_some_ranks_sees_only_theirs() -> None:
    window = CohortWindow(frozenset({1}))
    window.add(batch([(0, 0, 1, 100.0), (0, 1, 1, 2.0), (1, 0, 1, 7.0)]))
    changes = window.take_changes()
    assert list(changes) == [0]
    assert update_of(changes[0], "mean").mean == [2.0]


@pytest.mark.parametrize(
    ("reduction", "value"), [("mean", 4.0), ("sum", 12.0), ("min", 1.0), ("max", 9.0), ("last", 9.0)]
)
def test_b38_a_declared_reduction_is_what_is_shown(reduction: messages.Reduction, value: float) -> None:
    window = CohortWindow()
    window.add(batch([(0, 0, 5, 1.0), (0, 1, 5, 2.0), (0, 2, 5, 9.0)]))
    assert update(window, 0, reduction)["mean"] == [value]


def test_a_window_agrees_with_a_plain_sum_in_any_order() -> None:
    random = np.random.default_rng(7)
    rows = [
        (int(m), int(r), int(s), float(v))
        for m, r, s, v in zip(
            random.integers(0, 3, 4000),
            random.integers(0, 8, 4000),
            random.integers(0, 300, 4000),
            random.normal(size=4000),
            strict=True,
        )
    ]
    window = CohortWindow()
    for at in range(0, 4000, 37):
        window.add(batch(rows[at : at + 37]))
    whole = CohortWindow()
    whole.add(concatenate([batch(rows)]))
    for metric, changed in window.take_changes().items():
        own = [row for row in rows if row[0] == metric]
        steps = sorted({row[2] for row in own})
        assert changed["step"].tolist() == steps
        sums = [sum(row[3] for row in own if row[2] == step) for step in steps]
        assert np.allclose(changed["sum"], sums)
        other = whole.recent(10_000)[metric]
        assert np.array_equal(changed["low_rank"], other["low_rank"])
        assert np.array_equal(changed["high_rank"], other["high_rank"])


def test_a_window_keeps_the_latest_steps_only() -> None:
    window = CohortWindow()
    for start in range(0, 10_000, 1000):
        window.add(batch([(0, 0, step, 1.0) for step in range(start, start + 1000)]))
    rows = window.recent(100_000)[0]
    assert (len(rows), rows["step"][0], rows["step"][-1]) == (4096, 5904, 9999)


def epoch(number: int, loss: float | None = None, **fields: object) -> messages.EpochReport:
    metrics = {} if loss is None else {"loss": loss}
    return messages.EpochReport(epoch=number, metrics=metrics, **fields)  # type: ignore[arg-type]


def published(play: Play) -> list[int]:
    return [instruction.record.epoch for instruction in play.asked(outputs.PublishEpoch)]


def test_b34_an_epoch_waits_for_live_ranks_in_order_and_late_frames_amend() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, epoch(0, 1.0))
    play.tell(zero, epoch(1, 0.5))
    play.tell(one, epoch(1, 0.7))
    assert published(play) == []
    play.tell(one, epoch(0, 3.0))
    assert published(play) == [0, 1]
    play.tell(one, epoch(0, 5.0))
    assert play.machine.epoch_records()[0].metrics == {"loss": 3.0}
    assert published(play) == [0, 1, 0]


def test_b34_a_rank_that_died_does_not_hold_an_epoch_up() -> None:
    play = Play()
    zero = play.hello(0)
    play.hello(1)
    play.tell(zero, epoch(0, 1.0))
    for _ in range(31):
        play.beat(zero)
        play.wait(1)
    assert published(play) == [0]
    assert play.machine.epoch_records()[0].ranks == 1


def test_b35_means_are_weighted_and_ranks_without_the_metric_do_not_count() -> None:
    play = Play()
    sessions = [play.hello(rank, world=3) for rank in range(3)]
    play.tell(sessions[0], epoch(0, 1.0, batches=1, samples=10, seconds=2.0))
    play.tell(sessions[1], epoch(0, 2.0, batches=9, samples=30, seconds=5.0))
    play.tell(sessions[2], epoch(0, None, batches=5, samples=60, seconds=1.0))
    (record,) = play.machine.epoch_records()
    assert record.metrics == {"loss": 1.75}
    assert (record.seconds, record.samples, record.batches, record.ranks) == (5.0, 100, 15, 3)
    assert record.complete


def test_b34_epochs_come_in_ascending_order_whoever_reports_first() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    for number in (2, 1, 0):
        play.tell(zero, epoch(number, 1.0))
    for number in (1, 2):
        play.tell(one, epoch(number, 1.0))
        assert published(play) == []
    play.tell(one, epoch(0, 1.0))
    assert published(play) == [0, 1, 2]


def test_b34_a_rank_that_reports_only_some_epochs_does_not_hold_the_others_up() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    for number in range(4):
        play.tell(zero, epoch(number, 1.0))
        play.tell(one, epoch(number, 3.0) if number in (0, 3) else messages.Heartbeat(sent_at=0.0, uptime_seconds=1.0))
        play.wait(4)
    assert published(play) == [0, 1]
    for _ in range(3):
        play.beat(zero)
        play.beat(one)
        play.wait(4)
    assert published(play) == [0, 1, 2, 3]
    records = {record.epoch: record for record in play.machine.epoch_records()}
    assert [(records[n].metrics["loss"], records[n].ranks) for n in range(4)] == [
        (2.0, 2),
        (1.0, 1),
        (1.0, 1),
        (2.0, 2),
    ]
    play.tell(one, epoch(1, 5.0))
    assert play.machine.epoch_records()[1].metrics == {"loss": 3.0}


def test_b34_at_the_end_what_is_left_is_published() -> None:
    play = Play()
    zero, _ = play.hello(0), play.hello(1)
    play.tell(zero, epoch(0, 1.0))
    play.do(inputs.StopAsked("SIGTERM"))
    assert published(play) == []
    play.wait(1)
    assert (published(play), play.run.state) == ([0], "terminated")
    assert not play.machine.epoch_records()[0].complete


def test_b35_a_metric_counts_over_the_ranks_that_have_it() -> None:
    """As in a pipeline, where only the last stage has a loss, and only the first one reads data."""
    play = Play()
    first, last = play.hello(0), play.hello(1)
    play.tell(first, messages.EpochReport(epoch=0, metrics={"data_ms": 3.0}, batches=10))
    play.tell(last, messages.EpochReport(epoch=0, metrics={"loss": 0.5}, batches=10))
    assert play.machine.epoch_records()[0].metrics == {"loss": 0.5, "data_ms": 3.0}


@pytest.mark.parametrize("value", [0.1, 1.7976931348623157e308, 5e-324, -0.0, 1 / 3])
@pytest.mark.parametrize("weight", [1, 3, 7, 1000])
def test_b35_d60_the_value_of_one_rank_is_itself_and_that_of_equal_ranks_within_them(value: float, weight: int) -> None:
    one, two = Play(), Play()
    one.tell(one.hello(0, world=1), epoch(0, value, samples=weight))
    assert one.machine.epoch_records()[0].metrics == {"loss": value}
    for rank in range(2):
        session = two.hello(rank)
        two.tell(session, epoch(0, value, samples=weight))
    assert two.machine.epoch_records()[0].metrics == {"loss": value}


@pytest.mark.parametrize("reduction", ["mean", "min", "max", "sum"])
@pytest.mark.parametrize("order", [(math.nan, 1.0), (1.0, math.nan)])
def test_b35_d61_a_nan_of_one_rank_is_not_averaged_away(
    reduction: messages.Reduction, order: tuple[float, ...]
) -> None:
    play = Play()
    play.metric(0, "loss", reduction)
    for rank, value in enumerate(order):
        play.tell(play.hello(rank), epoch(0, value))
    assert play.machine.epoch_records()[0].metrics == {"loss": "NaN"}


@pytest.mark.parametrize(
    ("reduction", "value"), [("mean", 1.75), ("sum", 3.0), ("min", 1.0), ("max", 2.0), ("last", 2.0)]
)
def test_b38_a_declared_reduction_holds_for_epochs_too(reduction: messages.Reduction, value: float) -> None:
    play = Play()
    play.metric(0, "loss", reduction)
    play.tell(play.hello(0), epoch(0, 1.0, batches=1))
    play.tell(play.hello(1), epoch(0, 2.0, batches=3))
    assert play.machine.epoch_records()[0].metrics == {"loss": value}


def test_b35_without_samples_batches_weigh() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, epoch(0, 1.0, batches=1))
    play.tell(one, epoch(0, 2.0, batches=3))
    assert play.machine.epoch_records()[0].metrics == {"loss": 1.75}


def test_b36_throughput_is_by_own_time_and_shares_sum_to_one() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    for second in range(10):
        play.beat(zero, batches=second, samples=second * 32, own_step_seconds=0.1)
        play.beat(one, batches=second, samples=second * 96, own_step_seconds=0.9)
        play.wait(1)
    shown = play.ranks
    assert [entry.throughput for entry in shown] == pytest.approx([320.0, 96 / 0.9])
    assert [entry.batch_share for entry in shown] == [0.25, 0.75]
    assert play.run.throughput == pytest.approx(128.0)


def test_b37_a_run_of_one_epoch_still_has_windows() -> None:
    play = Play()
    play.hello(0, world=1)
    play.metric(0, "loss")
    out = play.points([(0, 0, 0, 1.0)])
    assert any(isinstance(instruction, outputs.PublishPoints) for instruction in out)
    assert list(play.machine.root.take_changes()) == [0]


def test_b37_values_are_shown_before_any_epoch_has_ended() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(epochs=1))
    play.metric(0, "loss")
    for step in range(100):
        play.points([(0, 0, step, 1.0 / (step + 1))])
    sample(play, session, host=messages.HostSample(cpu=0.5), rank=messages.RankSample(cpu=0.25))
    assert play.machine.epoch_records() == []
    assert len(play.asked(outputs.PublishPoints)) == 100
    assert len(play.machine.root.take_changes()[0]) == 100
    assert [r.cpu for r in play.asked(outputs.PublishResources) for r in [r.record]][:2] == [0.5, 0.25]


def test_b40_metric_order_is_loss_first_then_by_name() -> None:
    play = Play()
    play.hello(0, world=1)
    for number, name in enumerate(["zeta", "acc", "loss", "train/loss"]):
        play.metric(number, name)
    assert [entry.name for entry in play.machine.metric_entries()] == ["loss", "acc", "train/loss", "zeta"]


def test_b40_the_order_is_the_same_in_metrics_epochs_lines_and_catalog() -> None:
    names = ["\U0001f600", "\uff5e", "10", "9", "b", "Loss", "loss", "a/loss", "é"]
    play = Play()
    session = play.hello(0, world=1)
    for number, name in enumerate(names):
        play.metric(number, name)
    play.tell(session, messages.EpochReport(epoch=0, metrics=dict.fromkeys(reversed(names), 1.0)))
    wanted = ["loss", *sorted(set(names) - {"loss"})]
    assert [entry.name for entry in play.machine.metric_entries()] == wanted
    assert list(play.machine.epoch_records()[0].metrics) == wanted
    assert console.order_metrics(names) == wanted
    assert [entry.name for entry in metric_entries([], play.machine.metric_entries()[::-1])] == wanted


def test_b46_eta_is_unknown_then_by_the_last_five_epochs() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(epochs=10))
    assert play.run.eta_seconds is None
    for number, seconds in enumerate([100.0, 2.0, 2.0, 2.0, 2.0, 2.0]):
        play.tell(session, epoch(number, 1.0, seconds=seconds, ended_at=play.now.wall))
    assert play.run.eta_seconds == pytest.approx(8.0)


def test_b46_d49_eta_after_a_restart_is_from_the_epochs_since() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(epochs=10))
    for number in range(3):
        play.tell(session, epoch(number, 1.0, seconds=100.0))
    assert play.run.eta_seconds == pytest.approx(700.0)
    again = play.hello(0, world=1, generation=1)
    assert play.run.eta_seconds is None
    play.tell(again, epoch(3, 1.0, seconds=2.0))
    assert play.run.eta_seconds == pytest.approx(12.0)


def test_b46_d50_eta_by_steps_is_of_this_session_only_and_never_negative() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(steps=1000))
    play.beat(session, step=900)
    play.wait(0)
    assert play.run.eta_seconds is None
    play.wait(10)
    play.beat(session, step=950)
    play.wait(0)
    assert play.run.eta_seconds == pytest.approx(49 / 5)
    play.at += 15
    assert play.run.eta_seconds == pytest.approx(48 / 5), "a step that takes long does not shorten those after it"
    play.beat(session, step=1200)
    play.wait(0)
    assert play.run.eta_seconds == 0.0


@pytest.mark.parametrize("plan", [{"steps": 1000}, {"epochs": 10}])
def test_b46_eta_of_a_run_that_stands_is_unknown(plan: dict[str, int]) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(**plan))
    play.beat(session, step=10)
    play.wait(0)
    play.wait(2)
    play.beat(session, step=20)
    play.tell(session, epoch(0, 1.0, seconds=2.0))
    play.wait(0)
    known = play.run.eta_seconds
    assert known is not None
    assert known >= 18
    play.at += 20
    assert play.run.eta_seconds is not None
    assert play.run.eta_seconds > 15
    play.at += 10
    assert play.run.eta_seconds is None


def sample(play: Play, session: bytes, **fields: object) -> None:
    play.tell(session, messages.ResourceSample(time=play.now.wall, interval_seconds=2.0, **fields))  # type: ignore[arg-type]


def gpu(util: float | None, used: int) -> messages.RankSample:
    return messages.RankSample(
        cpu=0.1,
        memory=5,
        gpu=messages.GpuSample(index=0, uuid=f"u{used}", name="H200", util=util, memory_used=used, memory_total=100),
    )


def test_b26_cpu_and_memory_once_a_host_gpus_by_rank() -> None:
    play = Play()
    zero, one = play.hello(0, world=3, host="a"), play.hello(1, world=3, host="a")
    two = play.hello(2, world=3, host="b", local=0)
    sample(play, zero, rank=gpu(0.5, 10), host=messages.HostSample(cpu=0.2, memory_used=4, memory_total=8))
    sample(play, one, rank=gpu(None, 20))
    sample(play, two, rank=gpu(1.0, 30), host=messages.HostSample(cpu=0.6, memory_used=1, memory_total=8))
    play.wait(2)
    sample(play, one, rank=gpu(None, 20))
    root = [record for record in play.machine.resource_records("root") if record.path == "root"][-1]
    assert (root.cpu, root.memory_used, root.memory_total) == (pytest.approx(0.4), 5, 16)
    sample(play, zero, host=messages.HostSample(cpu=0.2, memory_used=4, memory_total=8))
    root = [record for record in play.machine.resource_records("root") if record.path == "root"][-1]
    assert (root.gpu_util, root.vram_used, root.vram_total) == (0.75, 60, 300)
    assert [(entry.index, entry.name) for entry in root.gpus] == [
        (0, "a:lr=0 gr=0 H200"),
        (1, "a:lr=1 gr=1 H200"),
        (2, "b:lr=0 gr=2 H200"),
    ]


def test_b13_what_cannot_be_read_is_absent_and_never_zero() -> None:
    play = Play()
    session = play.hello(0, world=1)
    sample(play, session, host=messages.HostSample(), rank=messages.RankSample())
    (entry,) = play.ranks
    assert (entry.cpu, entry.memory, entry.gpu) == (None, None, None)
    record = play.machine.resource_records("root/a")[0]
    assert (record.cpu, record.memory_used, record.gpu_util, record.vram_used) == (None, None, None, None)


def test_an_agents_sample_stands_in_only_until_the_rank_has_its_own() -> None:
    play = Play(launched=True)
    agent, rank = play.agent(), play.hello(0, world=1)
    sample(play, agent, rank=messages.RankSample(memory=1), of_rank=0)
    assert play.ranks[0].memory == 1
    sample(play, rank, rank=messages.RankSample(memory=2))
    sample(play, agent, rank=messages.RankSample(memory=3), of_rank=0)
    assert play.ranks[0].memory == 2


def end_badly(play: Play, session: bytes, **how: Any) -> None:
    play.tell(session, messages.Goodbye(time=0.0, **{"clean": False, **how}))


def test_an_epoch_that_an_exception_cut_short_is_not_whole_and_no_basis_for_the_time_left() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(epochs=10))
    for number, batches in enumerate([100, 100, 7]):
        play.tell(session, epoch(number, 1.0, seconds=batches / 10, batches=batches))
    assert [record.complete for record in play.machine.epoch_records()] == [True, True, True]
    end_badly(play, session)
    assert [record.complete for record in play.machine.epoch_records()] == [True, True, False]
    assert play.asked(outputs.PublishEpoch)[-1].record.epoch == 2, "the page hears of it"
    again = play.hello(0, world=1, generation=1)
    for number in (2, 3):
        play.tell(again, epoch(number, 1.0, seconds=10.0, batches=100))
    assert [record.complete for record in play.machine.epoch_records()] == [True] * 4, "it was trained again"


def test_the_time_left_after_an_interrupted_rank_is_that_of_whole_epochs() -> None:
    play = Play()
    sessions = [play.hello(rank) for rank in (0, 1)]
    play.tell(sessions[0], messages.SetPlan(epochs=10))
    for number, batches in enumerate([100, 100, 1]):
        for session in sessions:
            play.tell(session, epoch(number, 1.0, seconds=batches / 10, batches=batches))
    end_badly(play, sessions[1], clean=True, signal="SIGINT")
    assert [record.complete for record in play.machine.epoch_records()] == [True, True, False]
    assert play.run.eta_seconds == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("batches", "how"),
    [
        pytest.param([100, 100], {"clean": False}, id="an exception after a whole epoch"),
        pytest.param([100, 7], {"clean": True}, id="a script that ended by itself"),
        pytest.param([0, 0], {"clean": False}, id="batches that nobody counted"),
    ],
)
def test_an_epoch_that_nothing_cut_short_stays_whole(batches: list[int], how: dict[str, bool]) -> None:
    play = Play()
    session = play.hello(0, world=1)
    for number, count in enumerate(batches):
        play.tell(session, epoch(number, 1.0, seconds=1.0, batches=count))
    end_badly(play, session, **how)
    assert [record.complete for record in play.machine.epoch_records()] == [True, True]


def test_the_first_epoch_is_cut_short_unless_it_was_the_only_one_planned() -> None:
    for plan, complete in ((1, True), (5, False), (None, False)):
        play = Play()
        session = play.hello(0, world=1)
        play.tell(session, messages.SetPlan(epochs=plan))
        play.tell(session, epoch(0, 1.0, seconds=1.0, batches=30))
        end_badly(play, session)
        assert [record.complete for record in play.machine.epoch_records()] == [complete]
