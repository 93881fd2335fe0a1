"""Epochs of a few ranks that are all there from the start: what the life of a whole run reaches too seldom."""

import math

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.run.play import Play
from trackside.run import outputs
from trackside.wire import messages

RANKS = 3
NUMBERS = st.integers(0, 4)
LOSSES = st.sampled_from([0.1, 0.25, 3.0, -1.0, math.nan, math.inf, 1.7976931348623157e308])


class EpochLife(RuleBasedStateMachine):
    """Three ranks that report epochs in any order, again, or never, and end."""

    @initialize()
    def begin(self) -> None:
        self.play = Play()
        self.sessions = [self.play.hello(rank, world=RANKS) for rank in range(RANKS)]
        self.reports: dict[int, dict[int, float]] = {}
        self.over: set[int] = set()

    @rule(rank=st.integers(0, RANKS - 1), number=NUMBERS, loss=LOSSES, batches=st.integers(0, 3))
    def report(self, rank: int, number: int, loss: float, batches: int) -> None:
        if rank in self.over:
            return
        before, said = self.shown(), len(self.play.said)
        self.play.tell(self.sessions[rank], messages.EpochReport(epoch=number, metrics={"loss": loss}, batches=batches))
        self.reports.setdefault(number, {})[rank] = loss
        self.check_order(before, said)

    @rule(rank=st.integers(0, RANKS - 1))
    def end(self, rank: int) -> None:
        before, said = self.shown(), len(self.play.said)
        self.play.tell(self.sessions[rank], messages.Goodbye(time=1.0))
        self.over.add(rank)
        self.play.wait(0)
        self.check_order(before, said)

    @rule()
    def tick(self) -> None:
        self.play.wait(0)

    def shown(self) -> set[int]:
        return {record.epoch for record in self.play.machine.epoch_records()}

    def owed(self) -> set[int]:
        """Epochs that a living rank has not reported."""
        return {number for number, reports in self.reports.items() if set(range(RANKS)) - self.over - set(reports)}

    def check_order(self, before: set[int], said: int) -> None:
        """Those that are listed for the first time come in ascending order, and none before one that is owed."""
        published = [i.record.epoch for i in self.play.said[said:] if isinstance(i, outputs.PublishEpoch)]
        fresh = [number for number in published if number not in before]
        assert fresh == sorted(fresh)
        waiting = set(self.reports) - self.shown()
        assert not any(earlier < number for number in fresh for earlier in waiting)
        assert not set(fresh) & self.owed()

    @invariant()
    def b34_no_epoch_waits_that_nobody_who_lives_owes(self) -> None:
        waiting = sorted(set(self.reports) - self.shown())
        assert not waiting or waiting[0] in self.owed()

    @invariant()
    def b35_its_loss_is_the_weighted_mean_of_all_that_was_reported(self) -> None:
        for record in self.play.machine.epoch_records():
            losses = list(self.reports[record.epoch].values())
            assert record.ranks == len(losses)
            shown = record.metrics["loss"]
            if any(map(math.isnan, losses)):
                assert shown == "NaN"
            elif all(map(math.isfinite, losses)):
                assert isinstance(shown, float)
                assert min(losses) <= shown <= max(losses)
            else:
                assert shown == "Infinity"


TestEpochLife = EpochLife.TestCase
TestEpochLife.settings = settings(
    max_examples=80, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
