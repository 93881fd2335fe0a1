"""Anything may happen in any order; some things hold all the time."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.run.play import Play
from trackside.run import inputs
from trackside.wire import messages

RANKS = st.integers(0, 3)
VALUES = st.floats(allow_nan=True, allow_infinity=True, width=32)


class RunLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.play = Play(launched=False)
        self.sessions: list[bytes] = []
        self.generation = 0
        self.logged = 0
        self.play.metric(0, "loss")

    @rule(rank=RANKS, host=st.sampled_from("ab"), restart=st.booleans())
    def hello(self, rank: int, host: str, restart: bool) -> None:
        if restart and self.generation < 3:
            self.generation += 1
        self.sessions.append(self.play.hello(rank, 4, host, generation=self.generation))

    @rule(data=st.data(), samples=st.integers(0, 1000), dropped=st.integers(0, 5))
    def beat(self, data: st.DataObject, samples: int, dropped: int) -> None:
        if self.sessions:
            session = data.draw(st.sampled_from(self.sessions))
            self.play.beat(session, samples=samples, batches=samples, dropped_points=dropped, own_step_seconds=0.1)

    @rule(rank=RANKS, step=st.integers(0, 50), value=VALUES)
    def points(self, rank: int, step: int, value: float) -> None:
        self.play.points([(0, rank, step, value)], self.generation)
        self.logged += 1

    @rule(data=st.data(), clean=st.booleans())
    def goodbye(self, data: st.DataObject, clean: bool) -> None:
        if self.sessions:
            self.play.tell(data.draw(st.sampled_from(self.sessions)), messages.Goodbye(time=1.0, clean=clean))

    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        if self.sessions:
            self.play.do(inputs.ProcessGone(data.draw(st.sampled_from(self.sessions))))

    @rule(data=st.data(), number=st.integers(0, 5), loss=VALUES)
    def epoch(self, data: st.DataObject, number: int, loss: float) -> None:
        if self.sessions:
            report = messages.EpochReport(epoch=number, metrics={"loss": loss}, batches=1, seconds=1.0)
            self.play.tell(data.draw(st.sampled_from(self.sessions)), report)

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.play.wait(seconds)

    @rule()
    def replay(self) -> None:
        restored = type(self.play.machine).restore(self.play.machine.snapshot())
        assert restored.rank_entries(self.play.now) == self.play.ranks
        assert restored.run_document(self.play.now) == self.play.run

    @invariant()
    def every_rank_is_counted_once_and_belongs_to_the_generation(self) -> None:
        counts = self.play.run.ranks
        total = counts.alive + counts.late + counts.lost + counts.finished + counts.failed
        assert total == len(self.play.ranks) <= 4
        assert {entry.generation for entry in self.play.ranks} <= {self.generation}

    @invariant()
    def shares_sum_to_one(self) -> None:
        shares = [entry.batch_share for entry in self.play.ranks if entry.batch_share is not None]
        assert not shares or abs(sum(shares) - 1) < 1e-9

    @invariant()
    def times_are_never_negative(self) -> None:
        run = self.play.run
        assert run.elapsed_seconds >= 0
        assert run.eta_seconds is None or run.eta_seconds >= 0
        assert all((entry.age_seconds or 0) >= 0 for entry in self.play.ranks)

    @invariant()
    def points_are_counted(self) -> None:
        assert sum(entry.points for entry in self.play.machine.metric_entries()) == self.logged

    @invariant()
    def events_are_bounded_and_their_ids_ascend(self) -> None:
        ids = [event.id for event in self.play.events()]
        assert ids == sorted(set(ids))
        assert len(ids) <= 201


TestRunLife = RunLife.TestCase
TestRunLife.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
