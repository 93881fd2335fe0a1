"""Who is blamed, in which phase, and who never is."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from tests.unit.run.diagnose.simulate import PHASES, USUAL, Array, Job, Watch, slower
from trackside.run.diagnose import bound, words
from trackside.run.diagnose.entries import Entries
from trackside.wire.documents import Verdict


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("phase", ["data", "forward", "backward", "optimizer", "rest"])
def test_a_rank_that_is_behind_is_named_within_20_steps_and_nothing_else(ranks: int, phase: str) -> None:
    watch = Watch(Job(ranks=ranks, seed=11, faults=[slower(1, phase, 0.5, 100)])).watch(160)
    kind = "data starvation" if phase == "data" else "straggler"
    assert watch.kinds() == {(kind, 1, phase)}
    (opened, verdict), *_ = watch.said
    assert 100 <= opened <= 120
    assert abs((verdict.since_step or 0) - 100) <= 5
    assert verdict.path == "root/node-0/rank1"


@pytest.mark.parametrize("onset", range(100, 108))
def test_the_onset_is_found_among_short_steps_that_come_several_in_one(onset: int) -> None:
    job, diagnoser = Job(ranks=4, seed=5, sigma=0.02, faults=[slower(1, "forward", 1.0, onset)]), Watch(Job(ranks=4))
    while job.step < 300:
        diagnoser.diagnoser.take(summed(job.steps(40), 4, by=4))
        diagnoser.job.clock = job.clock
        diagnoser.tick()
    (verdict,) = diagnoser.diagnoser.book.open
    assert verdict.since_step is not None
    assert abs(verdict.since_step - onset) <= 1


def summed(entries: Entries, ranks: int, by: int) -> Entries:
    """So many steps of each rank in one entry."""

    def sums(column: Array) -> Array:
        return np.asarray(column.reshape(-1, by, ranks, *column.shape[1:]).sum(axis=1)).reshape(-1, *column.shape[1:])

    def last(column: Array) -> Array:
        return np.asarray(column.reshape(-1, by, ranks)[:, -1]).reshape(-1)

    added = {name: sums(getattr(entries, name)) for name in ("count", "wall", "own", "samples", "core_wait", "seconds")}
    return Entries(
        phases=entries.phases,
        **{name: last(getattr(entries, name)) for name in ("rank", "step", "ended_at")},
        **added,
    )


def test_figures_and_words_of_a_verdict() -> None:
    watch = Watch(Job(ranks=8, seed=3, sigma=0.05, faults=[slower(5, "data", 1.0, 50)])).watch(150)
    (verdict,) = watch.diagnoser.book.open
    assert verdict.own_seconds == pytest.approx(sum(USUAL.values()) + USUAL["data"], rel=0.05)
    assert verdict.peer_seconds == pytest.approx(USUAL["data"], rel=0.1)
    assert verdict.gain_seconds == pytest.approx(sum(USUAL.values()), rel=0.2)
    assert verdict.text.startswith("rank 5 on node-0 waits for data 10")
    assert "since step" in verdict.text
    assert verdict.claim.startswith("rank 5 on node-0 waits for data; ")
    assert " ms" not in verdict.claim
    assert "a step would be" in verdict.text
    document = watch.diagnoser.document()
    assert document is not None
    assert document.bound == "compute"
    assert document.gain_ratio == pytest.approx(0.47, abs=0.1)
    assert watch.diagnoser.worst_by_path(["root/node-0/rank5"]) == {"root/node-0/rank5": "data starvation"}


def test_a_verdict_clears_when_the_cause_is_gone_and_recurs_when_it_comes_back() -> None:
    faults = [slower(3, "forward", 0.6, 60, 120), slower(3, "forward", 0.6, 240, 300)]
    watch = Watch(Job(ranks=8, seed=4, faults=faults)).watch(400)
    assert watch.kinds() == {("straggler", 3, "forward")}
    assert [step for step, _ in watch.cleared] == pytest.approx([145, 325], abs=25)
    assert [verdict.pattern for verdict in watch.diagnoser.book.over] == ["once", "recurring"]
    assert not any(record.active for record in watch.run.events)


def test_nobody_is_named_in_a_healthy_job() -> None:
    for ranks, sigma in ((2, 0.1), (8, 0.3), (64, 0.1)):
        job = Job(ranks=ranks, seed=7, sigma=sigma, checkpoint_every=60, checkpoint_by=0, evaluate_every=150)
        watch = Watch(job).watch(300)
        assert [verdict for _, verdict in watch.said if verdict.kind != "slow step"] == []


def test_collective_time_is_nobodys_fault() -> None:
    """All ranks wait long in collectives while nobody is behind: the network is slow."""
    watch = Watch(Job(ranks=8, seed=5, wire_s=0.3)).watch(150)
    document = watch.diagnoser.document()
    assert watch.said == []
    assert document is not None
    assert document.bound == "communication"
    assert "collectives on every rank" in document.bound_text


def test_one_ranks_collective_time_is_not_its_own() -> None:
    def waits(seconds: Array, numbers: Array) -> None:
        seconds[:, 2, PHASES.index("collective")] += 5.0

    watch = Watch(Job(ranks=4, seed=6, faults=[waits])).watch(120)
    assert watch.said == []


def test_waiting_for_data_everywhere_is_the_jobs() -> None:
    watch = Watch(Job(ranks=4, seed=6, usual={**USUAL, "data": 0.25})).watch(150)
    assert watch.kinds() == {("data starvation", None, "data")}
    assert watch.said[0][1].path == "root"
    document = watch.diagnoser.document()
    assert document is not None
    assert document.bound == "input"


def test_regular_slow_steps_are_information() -> None:
    watch = Watch(Job(ranks=8, seed=8, pause_chance=0.0, checkpoint_every=50, checkpoint_s=1.5)).watch(600)
    assert watch.kinds() == {("slow step", None, "rest")}
    (verdict,) = watch.diagnoser.book.open
    assert verdict.pattern == "recurring"
    assert "every 50 steps" in verdict.text
    assert {record.severity for record in watch.run.events} == {"info"}


def test_a_checkpoint_of_one_rank_says_which_and_blames_nobody() -> None:
    job = Job(ranks=8, seed=8, pause_chance=0.0, checkpoint_every=50, checkpoint_s=1.5, checkpoint_by=0)
    watch = Watch(job).watch(600)
    assert watch.kinds() == {("slow step", 0, "rest")}
    assert watch.said[0][1].path == "root"


def test_what_comes_behind_the_last_collective_is_found_one_step_before() -> None:
    """Rank 0 writes once its step's collectives are done; the others wait for it in the next step."""

    class Behind(Job):
        def steps(self, count: int) -> Entries:
            known = super().steps(count)
            table = {name: getattr(known, name).reshape(-1, self.ranks).copy() for name in ("step", "own", "wall")}
            seconds = known.seconds.reshape(-1, self.ranks, len(PHASES)).copy()
            writes, waits = table["step"][:, 0] % 25 == 24, table["step"][:, 0] % 25 == 0
            table["own"][writes, 0] += 1.0
            table["wall"][writes, 0] += 1.0
            seconds[writes, 0, PHASES.index("rest")] += 1.0
            table["wall"][waits, 1:] += 1.0
            seconds[waits, 1:, PHASES.index("collective")] += 1.0
            own, wall = table["own"].reshape(-1), table["wall"].reshape(-1)
            return msgspec.structs.replace(known, own=own, wall=wall, seconds=seconds.reshape(-1, len(PHASES)))

    watch = Watch(Behind(ranks=4, seed=8, pause_chance=0.0)).watch(220)
    assert watch.kinds() == {("slow step", 0, "rest")}
    assert "every 25 steps" in watch.said[0][1].text


def test_a_larger_share_is_imbalance_not_slowness() -> None:
    class Uneven(Job):
        def _samples(self, numbers: Array) -> Array:
            samples = super()._samples(numbers).reshape(-1, self.ranks)
            samples[:, 2] *= 2
            return samples.reshape(-1)

    def more(seconds: Array, numbers: Array) -> None:
        seconds[:, 2] *= 2

    watch = Watch(Uneven(ranks=4, seed=9, faults=[more])).watch(150)
    assert {(kind, rank) for kind, rank, _ in watch.kinds()} == {("imbalance", 2)}
    shares = watch.diagnoser.suggested_shares()
    assert shares[2] == pytest.approx(0.25, abs=0.02)
    document = watch.diagnoser.document()
    assert document is not None
    assert [part.share for part in document.balance] == pytest.approx([0.2, 0.2, 0.4, 0.2], abs=0.01)


def test_a_smaller_share_is_imbalance() -> None:
    class Uneven(Job):
        def _samples(self, numbers: Array) -> Array:
            samples = super()._samples(numbers).reshape(-1, self.ranks)
            samples[:, 3] /= 4
            return samples.reshape(-1)

    def less(seconds: Array, numbers: Array) -> None:
        seconds[:, 3] /= 4

    watch = Watch(Uneven(ranks=4, seed=9, faults=[less])).watch(150)
    assert {(kind, rank) for kind, rank, _ in watch.kinds()} == {("imbalance", 3)}


def test_a_slower_rank_gets_a_suggested_share() -> None:
    watch = Watch(Job(ranks=4, seed=9, faults=[slower(1, "backward", 1.0, 0)])).watch(150)
    assert watch.kinds() == {("straggler", 1, "backward")}
    assert watch.diagnoser.suggested_shares()[1] == pytest.approx(1 / 7, abs=0.02)


def test_a_single_rank_has_a_bound_and_no_verdict() -> None:
    watch = Watch(Job(ranks=1, seed=1, usual={**USUAL, "data": 0.3}, wire_s=0.0)).watch(100)
    document = watch.diagnoser.document()
    assert watch.said == []
    assert document is not None
    assert document.bound == "input"


def test_unknown_times_are_not_guessed() -> None:
    class Blurred(Job):
        def steps(self, count: int) -> Entries:
            known = super().steps(count)
            nothing = np.full(len(known), np.nan)
            return msgspec.structs.replace(known, own=nothing, seconds=np.full_like(known.seconds, np.nan))

    watch = Watch(Blurred(ranks=4, seed=1, faults=[slower(1, "data", 2.0, 0)])).watch(100)
    assert watch.said == []
    document = watch.diagnoser.document()
    assert document is not None
    assert document.bound is None
    assert "cannot be told" in document.bound_text


def test_what_is_known_of_the_phases_is_compared() -> None:
    """Own time is unknown, waiting for data is not."""

    class Half(Job):
        def steps(self, count: int) -> Entries:
            known = super().steps(count)
            seconds = np.where(np.array(PHASES) == "data", known.seconds, np.nan)
            return msgspec.structs.replace(known, own=np.full(len(known), np.nan), seconds=seconds)

    watch = Watch(Half(ranks=4, seed=1, faults=[slower(1, "data", 1.0, 30)])).watch(100)
    assert watch.kinds() == {("data starvation", 1, "data")}


def test_the_last_word_on_a_rank_that_died_stands_until_it_begins_anew() -> None:
    """A job that fails while a rank is behind has not got rid of the cause."""
    watch = Watch(Job(ranks=4, seed=2, faults=[slower(1, "forward", 1.0, 0)])).watch(60)
    assert [one.rank for one in watch.diagnoser.book.open] == [1]
    watch.diagnoser._owners[1] = (0, b"the first process")
    for rank in watch.run.ranks.values():
        rank.state = "failed"
    watch.job.clock += 5
    watch.tick()
    assert [(one.rank, one.active) for one in watch.diagnoser.book.open] == [(1, True)]
    watch.run.ranks[1].state, watch.run.ranks[1].generation = "alive", 1
    watch.job.clock += 5
    watch.tick()
    assert watch.diagnoser.book.open == []
    assert [one.rank for one in watch.diagnoser.book.over] == [1]


def test_the_book_survives_a_checkpoint() -> None:
    watch = Watch(Job(ranks=4, seed=2, faults=[slower(1, "forward", 1.0, 0, 200)])).watch(60)
    kept = watch.diagnoser.snapshot()
    again = Watch(watch.job, said=list(watch.said))
    again.diagnoser.restore(kept)
    again.run.ranks, again.run.events = watch.run.ranks, watch.run.events
    again.run.event_marks, again.run.latest_events = watch.run.event_marks, watch.run.latest_events
    before: list[Verdict] = list(again.diagnoser.book.open)
    again.watch(100)
    assert [one.id for one in again.diagnoser.book.open] == [one.id for one in before]
    again.watch(140)
    assert again.diagnoser.book.open == []
    assert again.diagnoser.heat().step[0] == 0


def test_peers_that_hardly_work_do_not_hide_who_is_behind() -> None:
    """The others' own time is a few milliseconds and varies several times over; the step is long because of one."""

    def idle(seconds: Array, numbers: Array) -> None:
        seconds[:] *= np.random.default_rng(int(numbers[0])).uniform(0.02, 0.3, seconds.shape[:2])[:, :, None]

    job = Job(ranks=2, seed=1, faults=[idle, slower(1, "data", 2.5, 20)])
    watch = Watch(job).watch(60)
    assert watch.kinds() == {("data starvation", 1, "data")}
    assert watch.said[0][0] <= 40
    document = watch.diagnoser.document()
    assert document is not None
    assert document.bound != "input"


def test_how_much_slower_is_said_as_people_would() -> None:
    assert words.slower(0.131, 0.1) == "31% slower than its peers"
    assert words.slower(0.95, 0.1) == "9.5 times its peers' own time"
    assert words.slower(0.1, 0.0) == "0% slower than its peers"


def test_while_a_rank_is_behind_the_rest_is_waiting_for_it() -> None:
    costs = bound.Costs(0.144, {}, input_ratio=0.01, waiting_ratio=0.13, work_ratio=0.11, blocks=64)
    told = "of a step of 144 ms, 13% in collectives on every rank, 11% own work, 1% waiting for data"
    assert bound.bound_of(costs, None, has_laggard=True) == (None, f"{told}; the rest is waiting for who is behind")
    assert bound.bound_of(costs, None, has_laggard=False) == (None, f"nothing stands out: {told}")


def test_a_step_that_nobody_has_told_apart_is_not_called_compute() -> None:
    """Two thirds of it is code in no phase: what the job is bound by cannot be told, and that is what is said."""
    job = Job(ranks=2, seed=5, sigma=0.05, faults=[slower(rank, "rest", 2.0, 0) for rank in (0, 1)])
    document = Watch(job).watch(60).diagnoser.document()
    assert document is not None
    assert document.bound is None
    assert re.match(
        r"6\d% of a step of \d+ ms is code outside the phases, which mon.phase tells apart", document.bound_text
    )


def test_what_a_verdict_says_of_its_beginning_stays() -> None:
    watch = Watch(Job(ranks=4, seed=3, sigma=0.3, faults=[slower(2, "forward", 0.4, 50)])).watch(600)
    (verdict,) = watch.diagnoser.book.open
    assert verdict.since_step == pytest.approx(50, abs=15)
    assert f"since step {verdict.since_step:,}" in verdict.text


def test_a_rank_whose_core_was_taken_is_not_slow() -> None:
    watch = Watch(Job(ranks=8, seed=21, core_waits={0: (60, 0.06)})).watch(400)
    assert watch.kinds() == {("crowded host", None, None)}
    (verdict,) = watch.diagnoser.book.open
    assert verdict.path == "root/node-0"
    assert verdict.own_seconds == pytest.approx(0.06, rel=0.3)
    assert "takes the core of rank 0 on node-0" in verdict.text


def test_a_host_without_a_free_core_hides_no_rank_that_is_slow() -> None:
    everybody = dict.fromkeys(range(8), (0, 0.06))
    watch = Watch(Job(ranks=8, seed=22, core_waits=everybody, faults=[slower(3, "data", 0.5, 300)])).watch(500)
    assert watch.kinds() == {("crowded host", None, None), ("data starvation", 3, "data")}
    assert "node-0 has no core free: its ranks wait" in watch.said[0][1].text
    document = watch.diagnoser.document()
    assert document is not None
    assert "waiting for a free core" in document.bound_text


def test_a_crowded_host_is_so_until_there_is_room() -> None:
    watch = Watch(Job(ranks=2, seed=23, core_waits={0: (0, 0.05), 1: (0, 0.05)})).watch(200)
    assert watch.kinds() == {("crowded host", None, None)}
    watch.job.core_waits.clear()
    watch.watch(200)
    assert watch.diagnoser.book.open == []
