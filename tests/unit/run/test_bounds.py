"""What hostile or very large jobs can do to the state: little."""

import msgspec
import numpy as np
import pytest

from tests.unit.run.play import WALL, Play, batch, graph, graph_message
from trackside.run import epochs, outputs, quota, resources, topology
from trackside.run.cohort import FEWEST_STEPS, WINDOW_ROWS, CohortWindow
from trackside.run.inputs import Moment, SessionOpened, Ticked
from trackside.run.machine import RunMachine
from trackside.wire import messages

NESTED = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize("text", ["", "{", NESTED, "\ud800", "NaN", '{"a": 1e999}', '{"a": ' + "9" * 400 + "}"])
def test_any_metadata_leaves_a_state_that_can_be_saved_and_shown(text: str) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetMetadata(text=text))
    play.tell(session, messages.SetPlan(config=text))
    msgspec.json.encode(play.run)
    RunMachine.restore(play.machine.snapshot())


@pytest.mark.parametrize("raw", [b"\xc0", b"\x91", b"\xc1", msgspec.msgpack.encode({1: [b"x", float("nan")]})])
def test_any_graph_is_taken_or_refused(raw: bytes) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetGraph(graph=msgspec.Raw(raw), hash="a"))
    msgspec.json.encode(play.machine.graph())
    RunMachine.restore(play.machine.snapshot())


def test_b22_an_svg_and_a_graph_each_have_their_slot() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for name in ("net", "other"):
        play.tell(session, graph_message(graph(name)))
    play.tell(session, messages.SetGraph(svg="<svg/>", label="drawn"))
    assert (play.machine.graph(), play.machine.svg(), play.run.label) == (graph("net"), "<svg/>", "net")


def test_b22_any_number_of_other_structures_is_one_warning_with_a_count() -> None:
    play = Play()
    for rank in range(4):
        play.at += 20
        play.tell(play.hello(rank, world=4), messages.SetGraph(label="n", hash="a" if rank == 0 else "b"))
    (event,) = play.events("hash mismatch")
    assert (event.count, event.path) == (3, "root/a/rank1")


def test_long_and_unprintable_texts_are_cut_and_cleaned_for_the_terminal() -> None:
    play = Play()
    session = play.hello(0, world=1)
    out = play.tell(session, messages.UserEvent(time=1.0, title="\x1b[2Jx\n" + "y" * 100_000, level="warn"))
    (line,) = [i.line for i in out if hasattr(i, "line")]
    assert line.isprintable()
    assert len(play.events("user")[0].text) < 2100


def test_resources_stay_within_their_budget_and_keep_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "KEPT_BYTES", 60_000)
    monkeypatch.setattr(resources, "KEPT_RECORDS", 100)
    play = Play()
    sessions = [play.hello(rank, world=8) for rank in range(8)]
    for second in range(400):
        play.at = float(second)
        for session in sessions:
            sample = messages.ResourceSample(
                time=WALL + second, interval_seconds=1.0, rank=messages.RankSample(cpu=0.5)
            )
            play.tell(session, sample)
    state = play.machine.state
    size = sum(len(packed) + 41 for kept in state.samples.values() for packed in kept.older)
    assert size == state.samples_bytes <= 60_000
    for session in range(8):
        times = [record.time - WALL for record in play.machine.resource_records(f"root/a/rank{session}")]
        assert times == sorted(times)
        assert times[-1] == 399
        assert times[0] < 200
    few = resources.records_below(state, "root", limit=40)
    assert len(few) <= 40
    assert few[-1].time == WALL + 399


def test_b26_a_host_that_fell_silent_leaves_the_sums() -> None:
    play = Play()
    zero, one = play.hello(0, host="a"), play.hello(1, host="b", local=0)
    for session in (zero, one):
        host = messages.HostSample(cpu=0.5, memory_used=4, memory_total=8)
        play.tell(session, messages.ResourceSample(time=WALL, interval_seconds=2.0, host=host))
    play.at += 31
    host = messages.HostSample(cpu=0.1, memory_used=1, memory_total=8)
    play.tell(zero, messages.ResourceSample(time=WALL, interval_seconds=2.0, host=host))
    root = [record for record in play.machine.resource_records("root") if record.path == "root"][-1]
    assert (root.cpu, root.memory_used, root.memory_total) == (0.1, 1, 8)


def test_very_many_metrics_share_one_budget_of_steps() -> None:
    window = CohortWindow()
    metrics = 3 * WINDOW_ROWS // 4096
    for start in range(0, 4000, 500):
        rows = [(metric, 0, step, 1.0) for metric in range(metrics) for step in range(start, start + 500, 100)]
        window.add(batch(rows))
    kept = window.recent(10_000)
    assert len(kept) == metrics
    assert all(len(rows) == 40 for rows in kept.values())
    window = CohortWindow(steps=64)
    window.add(batch([(metric, 0, step, 1.0) for metric in range(3) for step in range(500)]))
    assert [len(rows) for rows in window.recent(10_000).values()] == [64, 64, 64]
    assert FEWEST_STEPS <= 64


def test_reports_of_epochs_far_behind_are_let_go_and_their_records_stand() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for number in range(50):
        play.tell(session, messages.EpochReport(epoch=number, metrics={"loss": float(number)}))
    held = [epoch.epoch for epoch in play.machine.state.epochs.values() if epoch.reports]
    assert held == list(range(50 - epochs.AMENDABLE_EPOCHS, 50))
    play.tell(session, messages.EpochReport(epoch=0, metrics={"loss": 99.0}))
    assert [record.metrics["loss"] for record in play.machine.epoch_records()] == [float(n) for n in range(50)]


def test_b35_weights_of_different_kinds_are_never_mixed() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=1, samples=1000))
    play.tell(one, messages.EpochReport(epoch=0, metrics={"loss": 2.0}, batches=1))
    assert play.machine.epoch_records()[0].metrics == {"loss": 1.5}


def test_a_flood_of_nan_is_counted_exactly_in_few_events() -> None:
    play = Play()
    play.hello(0, world=1)
    for number in range(500):
        play.metric(number, f"m{number}")
    for step in range(3):
        play.points([(number, 0, step, float("nan")) for number in range(500)])
    events = play.events("non-finite")
    assert sum(event.count for event in events) == 1500 == play.ranks[0].non_finite
    assert len(events) == 101
    assert events[0].text == "m0 is NaN at step 0"


def test_b36_throughput_is_unknown_where_work_and_waiting_cannot_be_told_apart() -> None:
    play = Play()
    pair, alone = play.hello(0, world=2), Play()
    single = alone.hello(0, world=1)
    for second in range(5):
        fields = {"batches": second, "samples": second * 10, "phases": {"data": second * 0.1, "step": second * 0.9}}
        play.beat(pair, **fields)
        alone.beat(single, **fields)
        play.wait(1)
        alone.wait(1)
    assert (play.ranks[0].throughput, alone.ranks[0].throughput) == (None, pytest.approx(10.0))


def test_b36_throughput_is_by_the_phases_of_the_window() -> None:
    play = Play()
    session = play.hello(0)
    for second in range(5):
        phases = {"data": second * 0.1, "compute": second * 0.3, "waiting": second * 0.6}
        play.beat(session, batches=second, samples=second * 10, phases=phases)
        play.wait(1)
    assert play.ranks[0].throughput == pytest.approx(25.0)
    assert play.ranks[0].phases == pytest.approx({"data": 0.1, "compute": 0.3, "waiting": 0.6})


@pytest.mark.parametrize("mono", [1000.0 + 60, 5.0, 9e6])
def test_a_controller_of_another_boot_takes_over_without_jumps(mono: float) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.at += 50
    play.beat(session, step=3)
    again = RunMachine.restore(play.machine.snapshot())
    now = Moment(WALL + 60, mono)
    again.handle(Ticked(), now)
    assert again.run_document(now).elapsed_seconds == pytest.approx(60.0)
    assert again.rank_entries(now)[0].age_seconds == pytest.approx(10.0)
    assert again.rank_entries(now)[0].state == "late"


def test_last_values_survive_a_snapshot() -> None:
    play = Play()
    play.hello(0)
    play.hello(1)
    play.metric(0, "loss")
    play.points([(0, 0, 1, 0.5), (0, 1, 1, 1.5)])
    again = RunMachine.restore(play.machine.snapshot())
    assert again.last_values() == [("loss", 0, "a", 0.5), ("loss", 1, "a", 1.5)]
    assert again.metric_entries()[0].last == 1.0


def test_a_window_takes_any_order_of_generations_like_one_batch_of_them() -> None:
    random = np.random.default_rng(3)
    for _ in range(30):
        parts = [(g, int(s)) for g in range(3) for s in random.integers(0, 20, 12)]
        window = CohortWindow()
        for generation, step in parts:
            window.add(batch([(0, 0, step, float(generation))], generation))
        firsts = [min(s for g, s in parts if g == generation) for generation in range(3)]
        expected = sorted({s for g, s in parts if all(s < first for later, first in enumerate(firsts) if later > g)})
        assert window.recent()[0]["step"].tolist() == expected


def test_a_loss_that_is_nan_everywhere_leaves_room_for_a_rank_that_died() -> None:
    """A thousand ranks log the same NaN after the same collective: that is one thing, not a thousand."""
    play = Play()
    for rank in range(300):
        play.hello(rank, world=300)
    play.metric(0, "loss")
    play.metric(1, "lr")
    for rank in range(300):
        play.points([(0, rank, 7, float("nan")), (1, rank, 7, float("inf"))])
    events = play.events("non-finite")
    assert (len(events), sum(event.count for event in events), play.events("events dropped")) == (10, 600, [])
    (whole,) = [event for event in events if event.path == "root" and event.text.startswith("loss")]
    assert (whole.text, whole.count, whole.severity) == ("loss is not finite on 300 ranks", 296, "critical")


def test_events_of_a_rank_have_a_measure_and_the_others_keep_theirs() -> None:
    play = Play()
    noisy, calm = play.hello(0), play.hello(1)
    for number in range(5000):
        play.tell(noisy, messages.UserEvent(time=1.0, title=f"event {number}", level="warn"))
        if number % 1000 == 0:
            play.tell(calm, messages.UserEvent(time=1.0, title=f"calm {number}"))
    play.wait(1)
    assert len([e for e in play.events("user") if e.path == "root/a/rank0"]) == quota.MOST_EVENTS
    assert len([e for e in play.events("user") if e.path == "root/a/rank1"]) == 5
    (left_out,) = play.events("events left out")
    assert (left_out.count, left_out.path, left_out.active) == (4900, "root/a/rank0", True)
    assert left_out.text.startswith("4,900 events were only counted")
    assert len(play.asked(outputs.PrintLine)) == quota.MOST_EVENTS + 5 + 1
    play.wait(quota.PERIOD_S)
    play.tell(noisy, messages.UserEvent(time=1.0, title="later"))
    assert play.events("user")[-1].text == "later"
    play.wait(quota.QUIET_S)
    assert "events left out" not in {warning.kind for warning in play.run.warnings}


def test_repeats_without_end_are_counted_exactly_and_said_now_and_then() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for _ in range(3000):
        play.tell(session, messages.UserEvent(time=1.0, title="again"))
    play.wait(0.2)
    (event,) = play.events("user")
    assert event.count == 3000
    said = play.asked(outputs.PublishEvent)
    assert len(said) <= quota.MOST_EVENTS + 1
    assert said[-1].record == event
    RunMachine.restore(play.machine.snapshot())


def test_metadata_of_any_size_leaves_the_document_small() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetMetadata(text='{"a": 1}'))
    play.tell(session, messages.SetMetadata(text='"' + "x" * 2_000_000 + '"'))
    play.tell(session, messages.SetPlan(config='{"a": "' + "x" * 2_000_000 + '"}'))
    assert play.run.metadata == {"a": 1}
    texts = [event.text for event in play.events("metadata refused")]
    assert texts == [
        "metadata of 2,000,002 characters is not taken: it may have 1,048,576; the former metadata stays",
        "a configuration of 2,000,009 characters is not taken: it may have 1,048,576",
    ]


def test_epochs_with_names_of_their_own_stay_within_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "MOST_NAMES", 50)
    monkeypatch.setattr(epochs, "MOST_FIGURES", 200)
    play = Play()
    session = play.hello(0, world=1)
    for number in range(40):
        metrics = {"loss": 1.0, **{f"{number}/{n}": 1.0 for n in range(20)}}
        play.tell(session, messages.EpochReport(epoch=number, metrics=metrics))
    records = play.machine.epoch_records()
    assert len({name for record in records for name in record.metrics}) <= 50
    assert sum(len(record.metrics) for record in records) <= 200
    assert [record.epoch for record in records] == list(range(40 - len(records), 40))
    assert all("loss" in record.metrics for record in records)
    (event,) = play.events("epoch values left out")
    assert event.count == 40 * 20 - 49
    assert "751 values of epochs were left out" in event.text
    RunMachine.restore(play.machine.snapshot())


def test_epochs_that_wait_for_a_rank_are_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "MOST_OPEN", 10)
    play = Play()
    ahead, behind = play.hello(0), play.hello(1)
    play.beat(behind, epoch=0, step=1)
    for number in range(100):
        play.tell(ahead, messages.EpochReport(epoch=number, metrics={"loss": 1.0}))
    open_ones = [epoch for epoch in play.machine.state.epochs.values() if not epoch.published]
    assert len(open_ones) == 10
    assert len(play.machine.epoch_records()) == 90
    assert not play.machine.epoch_records()[-1].complete


def test_a_heartbeat_has_few_phases_and_short_names_for_them() -> None:
    play = Play()
    session = play.hello(0, world=1)
    for batches in (1, 2):
        phases = {f"{n} ".ljust(1000, "x"): 0.5 * batches for n in range(500)}
        play.beat(session, batches=batches, phases=phases, phase="y" * 1000)
    entry = play.ranks[0]
    assert (len(entry.phases), len(entry.phase or "")) == (64, 80)
    assert max(map(len, entry.phases)) == 80


def test_sessions_without_end_are_forgotten_when_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "MANY_SESSIONS", 20)
    play = Play()
    for number in range(100):
        session = play.hello(0, world=1, key=f"{number}".encode().ljust(16, b"."))
        play.tell(session, messages.Goodbye(time=1.0))
    assert len(play.machine.state.sessions) <= 21
    assert play.ranks[0].state == "finished"


def test_facts_of_any_length_are_cut() -> None:
    play = Play()
    session = b"s" * 16
    hello = messages.Hello(
        session=session,
        role="rank",
        run=None,
        identity=messages.Identity(rank=0, local_rank=0, world_size=1, source="x" * 10**6),
        host=messages.HostFacts(host="h" * 10**6, machine_id="m" * 10**6, cpu_model="c" * 10**6),
        process=messages.ProcessFacts(pid=1, command=["w" * 10**6] * 1000, git_commit="g" * 10**6),
        sent_at=1.0,
    )
    play.do(SessionOpened(hello))
    play.tell(session, messages.SetHardware(cpu="c" * 10**6, gpu="g" * 10**6))
    assert len(msgspec.json.encode(play.run)) < 350_000
